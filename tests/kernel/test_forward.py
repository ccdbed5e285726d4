"""The forward pass: its symmetries, its trace, its input, and its loss."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.attention import attend, causal_mask
from circuitax.kernel.forward import batch_logits, forward, next_token_losses, unembed
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import Blocks, HeadStack


def test_token_losses_are_cross_entropies(rng, x64):
    logits, tokens = rng.normal(size=(2, 4, 6)), rng.integers(0, 6, (2, 4))
    found = jax.jit(next_token_losses)(jnp.asarray(logits), jnp.asarray(tokens))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [[-np.log(p[b, t, tokens[b, t + 1]]) for t in range(3)] for b in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_token_losses_by_hand_and_at_large_logits(x64: None) -> None:
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]))
    tokens = jnp.array([2, 1, 0])
    np.testing.assert_allclose(next_token_losses(logits, tokens), -np.log([0.25, 0.1]), rtol=1e-12)
    shifted = next_token_losses(logits + 1e4, tokens)
    np.testing.assert_allclose(shifted, -np.log([0.25, 0.1]), rtol=1e-9)
    assert jnp.isfinite(jax.grad(lambda z: next_token_losses(z * 1e4, tokens).sum())(logits)).all()


def test_token_losses_keep_their_digits_beside_large_logits() -> None:
    logits = jnp.array([[0.0, -7.0, -9.0], [0.0, 0.0, 0.0]])
    tokens = jnp.array([1, 0])
    want = np.log1p(np.exp(-7.0) + np.exp(-9.0))
    np.testing.assert_allclose(next_token_losses(logits + 4096, tokens), [want], rtol=2e-4)


def test_losses_and_patterns_of_half_precision_are_summed_in_single(rng) -> None:
    logits, tokens = jnp.asarray(rng.normal(size=(4, 5000)), jnp.bfloat16), jnp.arange(4)
    want = next_token_losses(logits.astype(jnp.float32), tokens)
    np.testing.assert_array_equal(next_token_losses(logits, tokens), want)
    mask = causal_mask(jnp.arange(300), jnp.arange(300))
    scores, v = (jnp.asarray(rng.normal(size=(1, 300, k)), jnp.float16) for k in (300, 4))
    v = 2000 * v  # sums of exponentials with these would overflow
    mixed, pattern = attend(scores, mask, v)
    wide = attend(scores.astype(jnp.float32), mask, v.astype(jnp.float32))
    np.testing.assert_allclose(mixed.astype(jnp.float32), wide[0], rtol=1e-3, atol=1)
    np.testing.assert_allclose(pattern.astype(jnp.float32), wide[1], rtol=1e-3, atol=1e-7)


run = jax.jit(forward, static_argnames="outputs")

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
S0 = {"score_scale": 1.0}


def test_zero_layers_are_W_E_W_U(x64: None, make_transformer) -> None:
    model = make_transformer(n_layers=0, **S0)
    logits, trace = run(model, TOKENS)
    np.testing.assert_allclose(logits, np.asarray(model.W_E @ model.W_U)[TOKENS], rtol=1e-12)
    assert trace.streams.shape == (1, 6, 8)
    assert trace.patterns.shape == (0, 3, 6, 6)


def test_multi_head_is_the_sum_of_heads_run_alone(x64: None, make_transformer) -> None:
    model = make_transformer(n_layers=1, **S0)
    _, together = run(model, TOKENS)
    updates = []
    for h in range(3):
        heads = HeadStack(*(W[:, h : h + 1] for W in model.blocks.attention[:4]))
        alone = model.replace(blocks=Blocks(heads))
        _, trace = run(alone, TOKENS)
        updates.append(trace.streams[1] - trace.streams[0])
    want = together.streams[1] - together.streams[0]
    np.testing.assert_allclose(sum(updates), want, rtol=1e-12, atol=1e-12)


SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 6, "d_head": 4, "d_value": 3, "n_ctx": 4}
FOUR = jnp.array([3, 1, 4, 5])


@pytest.mark.parametrize("causal", [True, False])
def test_S0_rmk_11_causality_by_gradients(x64: None, make_transformer, causal: bool) -> None:
    options = {"causal": causal, "positions": Positions.shortformer, "norm": Norm.rmsnorm}
    model = make_transformer(**SMALL, mlp=True, smear=True, **options)

    def logits(first: jax.Array) -> jax.Array:
        add = jnp.concatenate([first[None], jnp.zeros((2, 4, 6))])
        return run(model, FOUR, Interventions(stream_add=add))[0].sum(axis=1)

    influence = np.abs(np.asarray(jax.jacobian(logits)(jnp.zeros((4, 6))))).sum(axis=2)
    future = influence[np.triu_indices(4, 1)]
    assert (influence[np.tril_indices(4)] > 1e-9).all()
    assert (future == 0).all() if causal else (future > 1e-6).all()


def test_E30_equivariant_without_mask_and_positions_only(x64: None, make_transformer) -> None:
    learned = make_transformer(**SMALL, mlp=True, positions=Positions.learned, causal=False)
    bare = learned.replace(W_pos=None, spec=learned.spec.replace(positions=Positions.none))
    order = jnp.array([2, 0, 3, 1])

    def gap(model: Model) -> float:
        permuted_after = run(model, FOUR)[0][order]
        return float(jnp.abs(run(model, FOUR[order])[0] - permuted_after).max())

    assert gap(bare) < 1e-12
    invariant = run(bare, FOUR[order])[0] - run(bare, FOUR)[0]
    assert np.abs(np.asarray(invariant)).max() > 0.1, "S2 prints permutation-invariant"
    assert gap(bare.with_options(causal=True)) > 0.01
    assert gap(learned) > 0.01


def test_E30_last_position_of_one_causal_layer_ignores_the_order_before_it(
    x64: None, make_transformer
) -> None:
    shuffled = jnp.array([4, 3, 1, 5])

    def last(n_layers: int) -> tuple[jax.Array, jax.Array]:
        model = make_transformer(**(SMALL | {"n_layers": n_layers}), **S0)
        return tuple(run(model, t)[0][-1] for t in (FOUR, shuffled))

    np.testing.assert_allclose(*last(1), rtol=1e-12, atol=1e-12)
    two = last(2)
    assert np.abs(np.asarray(two[0] - two[1])).max() > 0.01, "two layers see the order"


def test_rotary_depends_on_offsets_only(x64: None, make_transformer) -> None:
    """Text may be moved to the right: its patterns among its own positions stay in proportion."""
    model = make_transformer(**(SMALL | {"n_layers": 1}), positions=Positions.rotary)
    text = jnp.array([3, 1, 4])
    near = run(model, jnp.concatenate([jnp.array([0]), text]))[1].patterns[0]
    far = run(model, jnp.concatenate([jnp.array([0, 2, 7]), text]))[1].patterns[0]

    def ratios(pattern: jax.Array) -> jax.Array:
        block = pattern[:, -3:, -3:]
        return block[:, 2] / block[:, 2, :1]

    np.testing.assert_allclose(ratios(near), ratios(far), rtol=1e-10)
    bare = model.with_options(positions=Positions.none)
    unturned = run(bare, jnp.array([0, 3, 1, 4]))[1].patterns[0]
    assert np.abs(np.asarray(ratios(unturned) - ratios(near))).max() > 1e-3


@pytest.mark.parametrize("positions", [Positions.shortformer, Positions.shortformer_sinusoidal])
def test_shortformer_positions_reach_patterns_but_never_the_stream(
    x64: None, make_transformer, positions: Positions
) -> None:
    model = make_transformer(**SMALL, positions=positions)
    without = model.replace(W_pos=None, spec=model.spec.replace(positions=Positions.none))
    _, trace = run(model, FOUR)
    _, bare = run(without, FOUR)
    np.testing.assert_array_equal(trace.streams[0], np.asarray(model.W_E)[FOUR])
    assert np.abs(np.asarray(trace.patterns - bare.patterns)).max() > 0.01
    frozen = Interventions(all_patterns=trace.patterns)
    _, replayed = run(without, FOUR, frozen)
    np.testing.assert_allclose(replayed.streams, trace.streams, rtol=1e-12)


def test_sinusoidal_positions_are_added_to_the_stream(x64: None, make_transformer) -> None:
    model = make_transformer(**SMALL, positions=Positions.sinusoidal)
    _, trace = run(model, FOUR)
    added = np.asarray(trace.streams[0]) - np.asarray(model.W_E)[FOUR]
    np.testing.assert_allclose(added[0], [0, 1, 0, 1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(added[3, :2], [np.sin(3), np.cos(3)], atol=1e-12)


def test_one_trace_for_batches_and_members(make_transformer) -> None:
    one = make_transformer(**SMALL, **S0)
    members = jax.tree.map(lambda a: jnp.stack([a, 2 * a, -a]), one)
    batch = jnp.stack([FOUR, FOUR[::-1]])

    @chex.assert_max_traces(n=1)
    def logits(model: Model, tokens: jax.Array) -> jax.Array:
        return forward(model, tokens)[0]

    together = jax.jit(jax.vmap(jax.vmap(logits, (None, 0)), (0, None)))(members, batch)
    alone, _ = run(jax.tree.map(lambda a: a[1], members), batch[1])
    np.testing.assert_allclose(together[1, 1], alone, rtol=1e-4, atol=1e-5)


def test_scanned_layers_equal_written_out_ones(x64: None, make_transformer) -> None:
    """Six layers are scanned; the stream of layer 4 is that of a four-layer model."""
    model = make_transformer(**(SMALL | {"n_layers": 6}), **S0)
    _, deep = run(model, FOUR)
    shallow = model.replace(blocks=jax.tree.map(lambda a: a[:4], model.blocks))
    _, four = run(shallow, FOUR)
    np.testing.assert_allclose(deep.streams[:5], four.streams, rtol=1e-10)


def test_reading_a_deep_model_copies_no_more_than_two_layers(make_transformer) -> None:
    """Working memory of nine layers, which are scanned, beside their weights."""
    sizes = {"n_heads": 2, "d_model": 96, "d_head": 48, "d_value": 48, "n_ctx": 4}
    model = make_transformer(**sizes, n_layers=9, mlp=True)
    memory = run.lower(model, FOUR).compile().memory_analysis()
    layer = sum(W.nbytes for W in jax.tree.leaves(model.blocks)) / 9
    assert 0 < memory.temp_size_in_bytes < 2 * layer


def test_unembedding_rows_of_many_texts_is_the_end_of_each_forward_pass(
    x64: None, make_transformer, rng: np.random.Generator
) -> None:
    model = make_transformer(n_layers=1, norm=Norm.layernorm_pre)
    model = model.replace(b_U=jnp.asarray(rng.standard_normal(model.d_vocab)))
    texts = jnp.stack([TOKENS, TOKENS[::-1]])
    logits, traces = jax.vmap(lambda text: run(model, text))(texts)
    np.testing.assert_allclose(batch_logits(model, texts), logits, rtol=1e-12, atol=1e-12)
    rows = traces.streams[:, -1].reshape(12, -1)
    got, scale = unembed(model, rows)
    np.testing.assert_allclose(got.reshape(logits.shape), logits, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale, traces.scales.final.reshape(12), rtol=1e-12)
    x = np.asarray(rows)
    x = x - x.mean(axis=1, keepdims=True)
    by_hand = x / 2 @ np.asarray(model.W_U) + np.asarray(model.b_U)
    frozen, _ = unembed(model, rows, 2 * jnp.ones(12))
    np.testing.assert_allclose(frozen, by_hand, rtol=1e-11, atol=1e-12)
