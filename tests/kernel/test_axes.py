"""The glossary names every axis and every field of the weight containers."""

import re
from pathlib import Path

from circuitax.kernel import weights
from circuitax.kernel.axes import AXES, WEIGHTS
from circuitax.kernel.weights import HeadStack, MLPWeights, TiedWeights, TransformerWeights


def test_every_axis_of_a_container_is_in_the_glossary() -> None:
    shapes = re.findall(r'Float\[Array, "([^"]+)"\]', Path(weights.__file__).read_text())
    names = {name for shape in shapes for name in shape.split()} - {"*batch"}
    assert len(names) >= 10
    assert names <= set(AXES)


def test_every_weight_is_in_the_glossary() -> None:
    containers = (TransformerWeights, HeadStack, MLPWeights, TiedWeights)
    fields = {name for container in containers for name in container._fields}
    assert {name for name in fields if name[0] == "W"} <= set(WEIGHTS)
