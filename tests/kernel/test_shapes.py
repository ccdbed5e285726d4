"""The table of axes: that of the containers' own annotations, and of the sources' notation."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import norm, weights
from circuitax.kernel.attention import project
from circuitax.kernel.interventions import Trace
from circuitax.kernel.model_fields import AXES, implied_options, weight_shape
from circuitax.kernel.norm import Norm
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


def test_S2_notation_table(x64: None, rng: np.random.Generator) -> None:
    """Every symbol of the table has one name here: a weight, an axis, or what a pass computes."""
    known = {axis for axes in AXES.values() for axis in axes}
    sizes = {"d_model": "d_model", "d_k": "d_head", "H": "n_heads"}
    maps = {f"W_{letter}": f"blocks.attention.W_{letter}" for letter in "QKVO"}
    maps |= {"Embed": "W_E", "Unembed": "W_U"}
    recorded = {"r": "streams", "Attn": "head_outputs", "MLP": "mlp_outputs"}
    assert set(sizes.values()) <= known
    assert set(maps.values()) <= set(AXES)
    assert set(recorded.values()) <= set(Trace._fields)
    x, W = rng.normal(size=(3, 4)), rng.normal(size=(2, 4, 2))
    q = project(jnp.asarray(x), jnp.asarray(W))  # and k and v, of each head and token by itself
    np.testing.assert_allclose(q[1, 2], x[2] @ W[1], rtol=1e-12)
    read = norm.apply_norm(jnp.asarray(x), Norm.layernorm, 1e-12, None)[0]  # LN
    np.testing.assert_allclose(read.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(read.var(axis=1), 1, rtol=1e-6)
