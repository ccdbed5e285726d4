"""The model: sizes from arrays, names of leaves, ensembles, and axes of every weight."""

import re
from inspect import unwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from circuitax.kernel import norm, weights
from circuitax.kernel.attention import project
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Trace
from circuitax.kernel.model import Model, stack
from circuitax.kernel.model_fields import AXES, implied_options, weight_shape
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights

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


TOKENS = jnp.array([3, 1, 4, 1])


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict:
    """Weights of NumPy: two layers, three heads, d_model 8, d_head 4, d_value 5, 11 tokens."""
    shapes = [(2, 3, 8, 4), (2, 3, 8, 4), (2, 3, 8, 5), (2, 3, 5, 8)]
    heads = HeadStack(*(0.5 * rng.standard_normal(shape) for shape in shapes))
    return {
        "W_E": rng.standard_normal((11, 8)),
        "W_U": rng.standard_normal((8, 11)),
        "attention": heads,
    }


def test_sizes_are_those_of_the_arrays(arrays: dict, rng: np.random.Generator) -> None:
    mlp = MLPWeights(rng.standard_normal((2, 8, 6)), rng.standard_normal((2, 6, 8)))
    model = Model.of(**arrays, mlp=mlp, W_pos=rng.standard_normal((9, 8)), positions="learned")
    sizes = (model.n_layers, model.n_heads, model.d_model, model.d_head, model.d_value)
    assert sizes == (2, 3, 8, 4, 5)
    assert (model.d_mlp, model.d_vocab, model.n_ctx) == (6, 11, 9)
    assert model.spec.scale == 0.5 and model.spec.positions is Positions.learned
    assert not model.spec.biases and not model.spec.gated and model.member_axes == ()
    text = repr(model)
    for part in ("n_layers=2", "n_heads=3", "d_mlp=6", "positions=learned", "norm=none", "float32"):
        assert part in text
    assert f"{sum(leaf.size for leaf in jax.tree.leaves(model)):,} " in text


def test_lists_and_half_precision_become_arrays_of_one_type(arrays: dict) -> None:
    heads = arrays["attention"]
    half = HeadStack(*(jnp.asarray(W, jnp.bfloat16) for W in heads[:4]))
    mixed = Model.of(**(arrays | {"attention": half, "W_E": arrays["W_E"].tolist()}))
    assert {leaf.dtype for leaf in jax.tree.leaves(mixed)} == {np.dtype("float32")}
    for dtype, tolerance in ((jnp.bfloat16, 0.1), (jnp.float16, 0.02)):
        single = Model.of(**arrays)
        low = jax.tree.map(lambda leaf, dtype=dtype: leaf.astype(dtype), single)
        logits, trace = forward(low, TOKENS)
        assert logits.dtype == dtype and trace.patterns.dtype == dtype
        want, _ = forward(single, TOKENS)
        np.testing.assert_allclose(np.asarray(logits, float), want, atol=tolerance * 10)
    with pytest.raises(ValueError, match="W_U has type int32, must be floating-point numbers"):
        Model.of(**(arrays | {"W_U": np.ones((8, 11), int)}))


def test_weights_against_a_given_spec(arrays: dict) -> None:
    model = Model.of(**arrays)
    wrong = model.spec.replace(d_vocab=12)
    with pytest.raises(ValueError, match=r"W_E has shape \(11, 8\), must be .* = \(12, 8\)"):
        model.replace(spec=wrong)
    with pytest.raises(ValueError, match=r"blocks\.mlp is None, but d_mlp=5 in the spec"):
        model.with_options(d_mlp=5)
    with pytest.raises(ValueError, match="'W_Q' must be a field of Model"):
        model.replace(W_Q=1)
    with pytest.raises(AttributeError, match="W_E of a Model cannot be set"):
        model.W_E = model.W_E


def test_sizes_and_scale_follow_changed_weights(x64: None, make_transformer) -> None:
    """A head with one more, silent, query coordinate scores as before."""
    model = make_transformer()
    heads = model.blocks.attention
    wide = {name: jnp.pad(getattr(heads, name), [(0, 0)] * 3 + [(0, 1)]) for name in ("W_Q", "W_K")}
    changed = model.replace(blocks=Blocks(heads._replace(**wide)))
    assert (changed.d_head, changed.spec.scale) == (5, model.spec.scale)
    np.testing.assert_allclose(forward(changed, TOKENS)[0], forward(model, TOKENS)[0], rtol=1e-12)
    assert model.replace(W_U=2 * model.W_U).spec is model.spec
    shorter = jax.tree.map(lambda leaf: leaf[:1], model.blocks)
    assert model.replace(blocks=shorter).n_layers == 1


def test_leaves_are_named_and_structures_compare(make_transformer) -> None:
    model = make_transformer(mlp=True, bias=True)
    paths = jax.tree_util.tree_leaves_with_path(model)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    assert names[:3] == ["W_E", "W_U", "blocks.attention.W_Q"]
    assert {"blocks.mlp.b_in", "b_U"} < set(names) and len(names) == len(set(names))
    assert set(model.named()) == set(names)
    assert jax.tree.structure(model) != jax.tree.structure(model.with_options(causal=False))
    abstract = jax.eval_shape(lambda: model)
    assert isinstance(abstract.W_E, jax.ShapeDtypeStruct) and abstract.spec == model.spec
    axes = jax.tree.map(lambda _: 0, model)
    doubled = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), model)
    assert jax.vmap(lambda m: m.W_E.sum(), in_axes=(axes,))(doubled).shape == (2,)


def test_an_ensemble_is_indexed_like_a_list(make_transformer) -> None:
    model = make_transformer(mlp=True)
    models = [jax.tree.map(lambda leaf, k=k: k * leaf, model) for k in (1, 2, -3)]
    ensemble = stack(models)
    assert len(ensemble) == 3 and [float(one.W_E[0, 0]) for one in ensemble] == [
        float(one.W_E[0, 0]) for one in models
    ]
    np.testing.assert_array_equal(ensemble[-1].W_out, -3 * np.asarray(model.W_out))
    np.testing.assert_array_equal(ensemble[1:].W_Q[0], 2 * np.asarray(model.W_Q))
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index={index} must be from -3 to 2"):
            ensemble[index]
    assert model and ensemble
    for ask in (len, lambda one: one[0]):
        with pytest.raises(ValueError, match="no axis of members: it is one model"):
            ask(model)
    with pytest.raises(ValueError, match="models must have at least one model"):
        stack([])
    with pytest.raises(ValueError, match=r"models\[1\] is a str, must be a Model"):
        unwrap(stack)([model, "model"])  # as a caller without the type checks of tests sees it
    with pytest.raises(ValueError, match=r"models\[1\] has another spec"):
        stack([model, model.with_options(score_scale=0.5)])
    with pytest.raises(ValueError, match=r"models\[1\] has other shapes than models\[0\] in W_E, "):
        stack([model, ensemble])


def test_weights_have_short_names(make_transformer) -> None:
    model = make_transformer(mlp=True)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert getattr(model, name) is getattr(model.blocks.attention, name)
    for name in ("W_in", "W_out"):
        assert getattr(model, name) is getattr(model.blocks.mlp, name)
        assert getattr(make_transformer(), name) is None


def test_names_of_options_are_read() -> None:
    spec = TransformerSpec()
    assert spec.replace(positions="rotary", norm="rmsnorm") == spec.replace(
        positions=Positions.rotary, norm=Norm.rmsnorm
    )
    # The suite checks the types of arguments; a user's session does not.
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        named = TransformerSpec(positions="rotary", activation="silu")
        assert named.positions is Positions.rotary
        assert hash(named) == hash(TransformerSpec(**vars(named)))
        with pytest.raises(ValueError, match=r"positions='rope' must be one of none, learned, .*"):
            TransformerSpec(positions="rope")
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
