"""Interventions in the forward pass, against what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import (
    Activations,
    Interventions,
    NormScales,
    ablate_heads,
    freeze,
)
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

run = jax.jit(forward, static_argnames="outputs")

TOKENS = jnp.array([3, 1, 4, 1])
OTHER = jnp.array([2, 7, 1, 8])
SINGLE_HEADS = jnp.eye(4).reshape(4, 2, 2)
NORMED = {"positions": Positions.shortformer, "norm": Norm.layernorm}
SIZES = {"n_heads": 2, "d_model": 6, "d_head": 4, "d_value": 3, "n_ctx": 4}


@pytest.fixture
def model(make_transformer) -> Model:
    return make_transformer(**SIZES, bias=True)


def without_head(model: Model, layer: int, head: int) -> Model:
    heads = model.blocks.attention
    silent = heads._replace(W_O=heads.W_O.at[layer, head].set(0))
    return model.replace(blocks=model.blocks._replace(attention=silent))


def test_zero_ablation_of_every_head_in_one_call(x64: None, model: Model) -> None:
    def ablated(mask: jax.Array) -> jax.Array:
        return forward(model, TOKENS, ablate_heads(mask))[0]

    together = jax.jit(jax.vmap(ablated))(SINGLE_HEADS)
    intact, _ = run(model, TOKENS)
    for cell, (layer, head) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        want, _ = run(without_head(model, layer, head), TOKENS)
        np.testing.assert_allclose(together[cell], want, rtol=1e-11, atol=1e-12)
        assert np.abs(np.asarray(want - intact)).max() > 1e-3


def test_replacing_heads_by_their_own_outputs_changes_nothing(x64: None, model: Model) -> None:
    logits, trace = run(model, TOKENS, outputs=True)
    everything = ablate_heads(jnp.ones((2, 2)), trace.head_outputs)
    same, again = run(model, TOKENS, everything, outputs=True)
    np.testing.assert_allclose(same, logits, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(again.head_outputs, trace.head_outputs, atol=1e-12)


def test_resample_ablation_of_all_heads_is_the_other_text_but_for_the_direct_path(
    x64: None, model: Model
) -> None:
    _, source = run(model, OTHER, outputs=True)
    _, patched = run(model, TOKENS, ablate_heads(jnp.ones((2, 2)), source.head_outputs))
    moved = source.streams[-1] - source.streams[0]
    np.testing.assert_allclose(patched.streams[-1] - patched.streams[0], moved, atol=1e-12)


def test_mean_ablation_takes_one_row_for_all_positions(x64: None, model: Model) -> None:
    _, source = run(model, OTHER, outputs=True)
    mean = source.head_outputs.mean(axis=2, keepdims=True)
    mask = SINGLE_HEADS[2]
    short, _ = run(model, TOKENS, ablate_heads(mask, mean))
    spread = jnp.broadcast_to(mean, source.head_outputs.shape)
    long, _ = run(model, TOKENS, ablate_heads(mask, spread))
    np.testing.assert_allclose(short, long, rtol=1e-11, atol=1e-12)


def test_pattern_preserving_ablation_keeps_patterns_downstream(x64: None, model: Model) -> None:
    _, clean = run(model, TOKENS)
    off = ablate_heads(SINGLE_HEADS[0])
    _, reacting = run(model, TOKENS, off)
    _, preserved = run(model, TOKENS, off._replace(all_patterns=clean.patterns))
    np.testing.assert_array_equal(preserved.patterns, clean.patterns)
    assert np.abs(np.asarray(reacting.patterns[1] - clean.patterns[1])).max() > 1e-3
    assert np.abs(np.asarray(preserved.streams[2] - reacting.streams[2])).max() > 1e-3


def test_one_head_may_be_frozen_alone(x64: None, model: Model) -> None:
    previous = jnp.broadcast_to(jnp.eye(4, k=-1).at[0, 0].set(1), (2, 2, 4, 4))
    only = jnp.zeros((2, 2), bool).at[0, 1].set(True)
    given = Interventions(patterns=previous, pattern_frozen=only)
    _, trace = run(model, TOKENS, given)
    _, clean = run(model, TOKENS)
    np.testing.assert_array_equal(trace.patterns[0, 1], previous[0, 1])
    np.testing.assert_allclose(trace.patterns[0, 0], clean.patterns[0, 0], rtol=1e-12)


def test_frozen_patterns_and_scales_make_the_model_affine_in_its_embedding(
    x64: None, make_transformer
) -> None:
    """Paths add: the response to a sum of changes is the sum of responses."""
    model = make_transformer(**SIZES, **NORMED)
    logits, trace = run(model, TOKENS)
    frozen = freeze(trace)
    np.testing.assert_allclose(run(model, TOKENS, frozen)[0], logits, rtol=1e-11, atol=1e-12)
    first, second = (
        jnp.zeros((3, 4, 6)).at[0, 1].set(v) for v in (jnp.arange(6.0), jnp.ones(6).at[2].set(-4))
    )

    def response(add: jax.Array, given: Interventions) -> jax.Array:
        return run(model, TOKENS, given._replace(stream_add=add))[0] - logits

    parts = response(first, frozen) + response(second, frozen)
    np.testing.assert_allclose(response(first + second, frozen), parts, rtol=1e-9, atol=1e-11)
    live = Interventions(stream_add=jnp.zeros((3, 4, 6)))
    bent = response(first, live) + response(second, live) - response(first + second, live)
    assert np.abs(np.asarray(bent)).max() > 0.1


def test_reads_are_patched_one_head_at_a_time(x64: None, model: Model) -> None:
    """Adding a direction to what a head reads equals moving its bias by the direction's image."""
    direction = jnp.arange(6.0) / 4
    for name, bias, matrix in (
        ("query_add", "b_Q", "W_Q"),
        ("key_add", "b_K", "W_K"),
        ("value_add", "b_V", "W_V"),
    ):
        add = jnp.zeros((2, 2, 1, 6)).at[1, 0, 0].set(direction)
        got, _ = run(model, TOKENS, Interventions(**{name: add}))
        heads = model.blocks.attention
        image = direction @ getattr(heads, matrix)[1, 0]
        moved = heads._replace(**{bias: getattr(heads, bias).at[1, 0].add(image)})
        shifted = model.replace(blocks=model.blocks._replace(attention=moved))
        np.testing.assert_allclose(got, run(shifted, TOKENS)[0], rtol=1e-11, atol=1e-12)
        if name != "key_add":  # one shift of all keys moves a row of scores by a constant
            assert np.abs(np.asarray(got - run(model, TOKENS)[0])).max() > 1e-3


def test_stream_patch_at_one_position(x64: None, model: Model) -> None:
    """Taking the whole stream of layer 1 from another text gives that text's logits."""
    logits, source = run(model, OTHER)
    keep = jnp.ones((3, 4)).at[1].set(0)
    add = jnp.zeros((3, 4, 6)).at[1].set(source.streams[1])
    all_positions, _ = run(model, TOKENS, Interventions(stream_keep=keep, stream_add=add))
    np.testing.assert_allclose(all_positions, logits, rtol=1e-11, atol=1e-12)
    one = Interventions(
        stream_keep=keep.at[1].set(1).at[1, 2].set(0),
        stream_add=add.at[1, :2].set(0).at[1, 3].set(0),
    )
    patched, trace = run(model, TOKENS, one)
    clean, _ = run(model, TOKENS)
    np.testing.assert_allclose(patched[:2], clean[:2], rtol=1e-11, atol=1e-12)
    assert np.abs(np.asarray(patched[2:] - clean[2:])).min() > 0
    np.testing.assert_array_equal(trace.streams[1, 2], source.streams[1, 2])


def test_the_last_stream_edit_reaches_the_unembedding(x64: None, model: Model) -> None:
    logits, source = run(model, OTHER)
    last = Interventions(
        stream_keep=jnp.ones((3, 1)).at[2].set(0),
        stream_add=jnp.zeros((3, 4, 6)).at[2].set(source.streams[2]),
    )
    patched, _ = run(model, TOKENS, last)
    np.testing.assert_allclose(patched, logits, rtol=1e-11, atol=1e-12)


def test_mlp_edits(x64: None, make_transformer) -> None:
    model = make_transformer(**SIZES, mlp=True)
    none = model.replace(blocks=model.blocks._replace(mlp=None))
    off, _ = run(model, TOKENS, Interventions(mlp_keep=jnp.zeros((2, 1))))
    np.testing.assert_allclose(off, run(none, TOKENS)[0], rtol=1e-11, atol=1e-12)
    logits, trace = run(model, TOKENS, outputs=True)
    own = Interventions(mlp_keep=jnp.zeros((2, 4)), mlp_add=trace.mlp_outputs)
    np.testing.assert_allclose(run(model, TOKENS, own)[0], logits, rtol=1e-11)


def test_units_and_divisors_are_moved(x64: None, make_transformer) -> None:
    """A unit comes out by its row of W_out; a moved divisor is one that is held at the sum."""
    model = make_transformer(n_layers=1, **SIZES, **NORMED, mlp=True)
    W_out = model.blocks.mlp.W_out[0]
    add = jnp.zeros((1, 4, W_out.shape[0])).at[0, 2, 3].set(0.7)
    written = jnp.zeros((1, 4, 6)).at[0, 2].set(0.7 * W_out[3])
    moved, _ = run(model, TOKENS, Interventions(add=Activations(post=add)))
    np.testing.assert_allclose(moved, run(model, TOKENS, Interventions(mlp_add=written))[0])
    logits, trace = run(model, TOKENS)
    for name in ("attention", "mlp", "final"):
        scale = getattr(trace.scales, name)
        held = Interventions(scales=NormScales(**{name: scale + 1.5}))
        shift = Interventions(scale_add=NormScales(**{name: jnp.full_like(scale, 1.5)}))
        got, _ = run(model, TOKENS, shift)
        np.testing.assert_allclose(got, run(model, TOKENS, held)[0], rtol=1e-11)
        assert np.abs(np.asarray(got - logits)).max() > 1e-3
