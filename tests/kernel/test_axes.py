"""The glossary names every axis and every field of the weight containers."""

import re
from pathlib import Path

from circuitax.kernel import norm, weights
from circuitax.kernel.axes import AXES, WEIGHTS
from circuitax.kernel.interventions import Trace
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


def test_S2_notation_table() -> None:
    """Every symbol of the table has one name here, in the glossary or in what a pass records."""
    sizes = {"d_model": "d_model", "d_k": "d_head", "H": "n_heads"}
    maps = {f"W_{letter}": f"W_{letter}" for letter in "QKVO"} | {"Embed": "W_E", "Unembed": "W_U"}
    recorded = {"r": "streams", "Attn": "head_outputs", "MLP": "mlp_outputs"}
    assert set(sizes.values()) <= set(AXES)
    assert set(maps.values()) <= set(WEIGHTS)
    assert set(recorded.values()) <= set(Trace._fields)
    assert callable(norm.apply_norm)  # LN
