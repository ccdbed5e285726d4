"""The model object: what it holds, what it refuses, and what transformations do to it."""

from inspect import unwrap

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model, check_one_member, stack
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, NormWeights

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


def transposed(W: np.ndarray) -> np.ndarray:
    return np.swapaxes(W, -1, -2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h: {"attention": h._replace(W_O=transposed(h.W_O))},
            r"blocks\.attention\.W_O has shape \(2, 3, 8, 5\), must be \[n_layers, n_heads, "
            r"d_value, d_model\] = \(2, 3, 5, 8\)",
        ),
        (
            lambda h: {"attention": HeadStack(*(transposed(W) for W in h[:4]))},
            r"blocks\.attention\.W_Q has shape \(2, 3, 4, 8\), must be \[n_layers, n_heads, d_mod",
        ),
        (
            lambda h: {"attention": h._replace(W_K=h.W_K[:, :1])},
            r"blocks\.attention\.W_K has shape \(2, 1, 8, 4\), must be .* = \(2, 3, 8, 4\)",
        ),
        (
            lambda h: {"attention": h._replace(W_Q=h.W_Q[0])},
            r"blocks\.attention\.W_Q has shape \(3, 8, 4\), must be \[n_layers, n_heads, d_mo",
        ),
        (lambda h: {"W_U": np.ones((11, 8))}, r"W_U has shape \(11, 8\), must be \[d_model, d_vo"),
        (lambda h: {"b_U": np.ones(8)}, r"b_U has shape \(8,\), must be \[d_vocab_out\] = \(11,\)"),
        (
            lambda h: {"final_norm": NormWeights(np.ones(8))},
            "final_norm is given, but norm=none has no gain",
        ),
        (
            lambda h: {"attention_norm": NormWeights(np.ones((2, 8))), "norm": "layernorm_pre"},
            r"blocks\.attention_norm is given, but norm=layernorm_pre has no gain",
        ),
        (
            lambda h: {
                "final_norm": NormWeights(np.ones(8)),
                "norm": "layernorm",
                "final_norm_": False,
            },
            "final_norm",
        ),
        (lambda h: {"W_pos": np.ones((9, 8))}, "W_pos is given, but positions=none has no table"),
        (lambda h: {"positions": "learned", "n_ctx": 9}, "positions=learned needs W_pos"),
        (lambda h: {"positions": "rotery"}, "positions='rotery' must be one of none, learned, "),
        (lambda h: {"norm": "LN"}, "norm='LN' must be one of none, layernorm, layernorm_pre, rms"),
        (lambda h: {"d_head": 4}, "d_head=4 must be left out: the arrays decide it"),
    ],
)
def test_what_does_not_fit_is_named(arrays: dict, change, message: str) -> None:
    given = arrays | change(arrays["attention"])
    if given.pop("final_norm_", None) is False:
        model = Model.of(**given)
        message = "final_norm is given as weights, but final_norm=False in the spec"
        with pytest.raises(ValueError, match=message):
            model.with_options(final_norm=False)
        return
    with pytest.raises(ValueError, match=message):
        Model.of(**given)


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


def test_norm_weights_are_refused_by_the_pass_too(make_transformer) -> None:
    """A transformation rebuilds a model without a check; the forward pass looks again."""
    normed = make_transformer(norm=Norm.layernorm)
    leaves, structure = jax.tree.flatten(normed)
    bare = jax.tree.structure(normed)
    assert structure == bare
    hidden = object.__new__(Model)
    hidden._set(
        normed.spec.replace(norm=Norm.none),
        tuple(
            getattr(normed, name) for name in ("W_E", "W_U", "blocks", "W_pos", "b_U", "final_norm")
        ),
    )
    with pytest.raises(ValueError, match=r"blocks\.attention_norm is given, but norm=none"):
        forward(hidden, TOKENS)
    assert len(leaves) > 6


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


def test_jit_vmap_and_grad(x64: None, make_transformer) -> None:
    model = make_transformer()
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), model)
    assert members.member_axes == (2,) and "members=2" in repr(members)

    def total(model: Model) -> jax.Array:
        return (forward(model, TOKENS)[0] ** 2).sum()

    both = jax.jit(jax.vmap(total))(members)
    np.testing.assert_allclose(both[1], total(members[1]), rtol=1e-10)
    slope = jax.jit(jax.grad(total))(model)
    assert isinstance(slope, Model) and slope.spec == model.spec
    step = 1e-6
    up, down = (model.replace(W_U=model.W_U.at[2, 3].add(d)) for d in (step, -step))
    difference = (total(up) - total(down)) / (2 * step)
    np.testing.assert_allclose(slope.W_U[2, 3], difference, rtol=1e-6)
    with pytest.raises(ValueError, match=r"vmap over it, or take models\[0\]"):
        check_one_member(members)
    widths = Model.of(
        **{name: getattr(members, name) for name in ("W_E", "W_U")},
        attention=members.blocks.attention,
    )
    assert widths.member_axes == (2,) and widths.d_model == 8
    with pytest.raises(ValueError, match=r"W_U has shape .* behind the leading axes \(2,\) of W_E"):
        members.replace(W_U=model.W_U)


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
