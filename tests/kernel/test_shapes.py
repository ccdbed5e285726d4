"""The table of axes: that of the containers' own annotations, and of the sources' notation."""

import re
from pathlib import Path

import pytest

from circuitax.kernel import norm, weights
from circuitax.kernel.interventions import Trace
from circuitax.kernel.norm import Norm
from circuitax.kernel.shapes import AXES, implied_options, weight_shape
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import HeadStack, MLPWeights

# The container of each place in a model, and the axis that its layers are stacked on.
CONTAINERS = {
    "HeadStack": ("blocks.attention.", ["n_layers"]),
    "MLPWeights": ("blocks.mlp.", ["n_layers"]),
}


@pytest.mark.parametrize("container", [HeadStack, MLPWeights])
def test_the_table_says_what_the_containers_say(container: type) -> None:
    place, stacked = CONTAINERS[container.__name__]
    text = Path(weights.__file__).read_text()
    text = text[text.index(f"class {container.__name__}") :].split("\nclass ")[0]
    declared = re.findall(r'^    (\w+): Float\[Array, "\*batch ?([^"]*)"\]', text, re.MULTILINE)
    assert [name for name, _ in declared] == list(container._fields)
    for name, axes in declared:
        assert list(AXES[place + name]) == stacked + axes.split(), name


def test_shapes_and_sizes_invert_each_other() -> None:
    spec = TransformerSpec(
        d_vocab=11,
        n_ctx=9,
        n_layers=2,
        n_heads=3,
        d_model=8,
        d_head=4,
        d_value=5,
        d_mlp=7,
        mlp_depth=3,
        biases=True,
        smeared_keys=True,
        norm=Norm.rmsnorm,
        qk_norm=True,
        post_norm=True,
    )
    shapes = {name: weight_shape(name, spec) for name in AXES if name != "blocks.mlp.W_gate"}
    assert shapes["blocks.mlp.W_hidden"] == (2, 2, 7, 7)
    found = implied_options(shapes, has_table=True)
    assert spec.replace(**found) == spec and len(found) == 16
    members = {name: (6, *shape) for name, shape in shapes.items()}
    assert implied_options(members, has_table=True) == found
    with pytest.raises(ValueError, match=r"blocks\.mlp\.W_in has no shape in a model with d_mlp="):
        weight_shape("blocks.mlp.W_in", TransformerSpec())


def test_S2_notation_table() -> None:
    """Every symbol of the table has one name here, among the weights or in what a pass records."""
    known = {axis for axes in AXES.values() for axis in axes}
    sizes = {"d_model": "d_model", "d_k": "d_head", "H": "n_heads"}
    maps = {f"W_{letter}": f"blocks.attention.W_{letter}" for letter in "QKVO"}
    maps |= {"Embed": "W_E", "Unembed": "W_U"}
    recorded = {"r": "streams", "Attn": "head_outputs", "MLP": "mlp_outputs"}
    assert set(sizes.values()) <= known
    assert set(maps.values()) <= set(AXES)
    assert set(recorded.values()) <= set(Trace._fields)
    assert callable(norm.apply_norm)  # LN
