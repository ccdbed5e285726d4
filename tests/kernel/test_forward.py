"""Properties of the forward pass from first principles, and what it refuses."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward, unembed
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import Blocks, HeadStack, TransformerWeights

run = jax.jit(forward, static_argnames=("spec", "outputs"))

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
S0_SPEC = ForwardSpec(score_scale=1.0)


def test_zero_layers_are_W_E_W_U(x64: None, make_transformer) -> None:
    weights = make_transformer(n_layers=0)
    logits, trace = run(weights, TOKENS, S0_SPEC)
    np.testing.assert_allclose(logits, np.asarray(weights.W_E @ weights.W_U)[TOKENS], rtol=1e-12)
    assert trace.streams.shape == (1, 6, 8)
    assert trace.patterns.shape == (0, 3, 6, 6)


def test_multi_head_is_the_sum_of_heads_run_alone(x64: None, make_transformer) -> None:
    weights = make_transformer(n_layers=1)
    _, together = run(weights, TOKENS, S0_SPEC)
    updates = []
    for h in range(3):
        heads = HeadStack(*(W[:, h : h + 1] for W in weights.blocks.attention[:4]))
        alone = weights._replace(blocks=Blocks(heads))
        _, trace = run(alone, TOKENS, S0_SPEC)
        updates.append(trace.streams[1] - trace.streams[0])
    want = together.streams[1] - together.streams[0]
    np.testing.assert_allclose(sum(updates), want, rtol=1e-12, atol=1e-12)


SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 6, "d_head": 4, "d_value": 3, "n_ctx": 4}
FOUR = jnp.array([3, 1, 4, 5])


@pytest.mark.parametrize("causal", [True, False])
def test_S0_rmk_11_causality_by_gradients(x64: None, make_transformer, causal: bool) -> None:
    weights = make_transformer(**SMALL, mlp=True, smear=True, table=True)
    spec = ForwardSpec(0.5, causal, Positions.shortformer, Norm.rmsnorm, final_norm=True)

    def logits(first: jax.Array) -> jax.Array:
        add = jnp.concatenate([first[None], jnp.zeros((2, 4, 6))])
        return run(weights, FOUR, spec, Interventions(stream_add=add))[0].sum(axis=1)

    influence = np.abs(np.asarray(jax.jacobian(logits)(jnp.zeros((4, 6))))).sum(axis=2)
    future = influence[np.triu_indices(4, 1)]
    assert (influence[np.tril_indices(4)] > 1e-9).all()
    assert (future == 0).all() if causal else (future > 1e-6).all()


def test_E30_equivariant_without_mask_and_positions_only(x64: None, make_transformer) -> None:
    weights = make_transformer(**SMALL, mlp=True, table=True)
    order = jnp.array([2, 0, 3, 1])
    bare = ForwardSpec(0.5, causal=False)

    def gap(spec: ForwardSpec) -> float:
        permuted_after = run(weights, FOUR, spec)[0][order]
        return float(jnp.abs(run(weights, FOUR[order], spec)[0] - permuted_after).max())

    assert gap(bare) < 1e-12
    invariant = run(weights, FOUR[order], bare)[0] - run(weights, FOUR, bare)[0]
    assert np.abs(np.asarray(invariant)).max() > 0.1, "S2 prints permutation-invariant"
    assert gap(dataclasses.replace(bare, causal=True)) > 0.01
    assert gap(dataclasses.replace(bare, positions=Positions.learned)) > 0.01


def test_E30_last_position_of_one_causal_layer_ignores_the_order_before_it(
    x64: None, make_transformer
) -> None:
    shuffled = jnp.array([4, 3, 1, 5])

    def last(n_layers: int) -> tuple[jax.Array, jax.Array]:
        weights = make_transformer(**(SMALL | {"n_layers": n_layers}))
        return tuple(run(weights, t, S0_SPEC)[0][-1] for t in (FOUR, shuffled))

    np.testing.assert_allclose(*last(1), rtol=1e-12, atol=1e-12)
    two = last(2)
    assert np.abs(np.asarray(two[0] - two[1])).max() > 0.01, "two layers see the order"


def test_rotary_depends_on_offsets_only(x64: None, make_transformer) -> None:
    """Text may be moved to the right: its patterns among its own positions stay in proportion."""
    weights = make_transformer(**(SMALL | {"n_layers": 1}))
    spec = ForwardSpec(0.5, positions=Positions.rotary)
    text = jnp.array([3, 1, 4])
    near = run(weights, jnp.concatenate([jnp.array([0]), text]), spec)[1].patterns[0]
    far = run(weights, jnp.concatenate([jnp.array([0, 2, 7]), text]), spec)[1].patterns[0]

    def ratios(pattern: jax.Array) -> jax.Array:
        block = pattern[:, -3:, -3:]
        return block[:, 2] / block[:, 2, :1]

    np.testing.assert_allclose(ratios(near), ratios(far), rtol=1e-10)
    unturned = run(weights, jnp.array([0, 3, 1, 4]), S0_SPEC)[1].patterns[0]
    assert np.abs(np.asarray(ratios(unturned) - ratios(near))).max() > 1e-3


@pytest.mark.parametrize("positions", [Positions.shortformer, Positions.shortformer_sinusoidal])
def test_shortformer_positions_reach_patterns_but_never_the_stream(
    x64: None, make_transformer, positions: Positions
) -> None:
    weights = make_transformer(**SMALL, table=True)
    spec = ForwardSpec(0.5, positions=positions)
    _, trace = run(weights, FOUR, spec)
    _, bare = run(weights, FOUR, ForwardSpec(0.5))
    np.testing.assert_array_equal(trace.streams[0], np.asarray(weights.W_E)[FOUR])
    assert np.abs(np.asarray(trace.patterns - bare.patterns)).max() > 0.01
    frozen = Interventions(patterns=trace.patterns)
    _, replayed = run(weights, FOUR, ForwardSpec(0.5), frozen)
    np.testing.assert_allclose(replayed.streams, trace.streams, rtol=1e-12)


def test_sinusoidal_positions_are_added_to_the_stream(x64: None, make_transformer) -> None:
    weights = make_transformer(**SMALL)
    _, trace = run(weights, FOUR, ForwardSpec(0.5, positions=Positions.sinusoidal))
    added = np.asarray(trace.streams[0]) - np.asarray(weights.W_E)[FOUR]
    np.testing.assert_allclose(added[0], [0, 1, 0, 1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(added[3, :2], [np.sin(3), np.cos(3)], atol=1e-12)


def test_one_trace_for_batches_and_members(make_transformer) -> None:
    one = make_transformer(**SMALL)
    members = jax.tree.map(lambda a: jnp.stack([a, 2 * a, -a]), one)
    batch = jnp.stack([FOUR, FOUR[::-1]])

    @chex.assert_max_traces(n=1)
    def logits(weights: TransformerWeights, tokens: jax.Array) -> jax.Array:
        return forward(weights, tokens, S0_SPEC)[0]

    together = jax.jit(jax.vmap(jax.vmap(logits, (None, 0)), (0, None)))(members, batch)
    alone, _ = run(jax.tree.map(lambda a: a[1], members), batch[1], S0_SPEC)
    np.testing.assert_allclose(together[1, 1], alone, rtol=1e-4, atol=1e-5)


def test_scanned_layers_equal_written_out_ones(x64: None, make_transformer) -> None:
    """Six layers pass the unroll limit; the stream of layer 4 is that of a four-layer model."""
    weights = make_transformer(**(SMALL | {"n_layers": 6}))
    _, deep = run(weights, FOUR, S0_SPEC)
    shallow = weights._replace(blocks=jax.tree.map(lambda a: a[:4], weights.blocks))
    _, four = run(shallow, FOUR, S0_SPEC)
    np.testing.assert_allclose(deep.streams[:5], four.streams, rtol=1e-10)


def test_unembedding_rows_of_many_texts_is_the_end_of_each_forward_pass(
    x64: None, make_transformer, rng: np.random.Generator
) -> None:
    weights = make_transformer(n_layers=1)
    weights = weights._replace(b_U=jnp.asarray(rng.standard_normal(weights.W_U.shape[1])))
    spec = ForwardSpec(0.5, norm=Norm.layernorm_pre, final_norm=True)
    logits, traces = jax.vmap(lambda text: run(weights, text, spec))(
        jnp.stack([TOKENS, TOKENS[::-1]])
    )
    rows = traces.streams[:, -1].reshape(12, -1)
    got, scale = unembed(weights, rows, spec)
    np.testing.assert_allclose(got.reshape(logits.shape), logits, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale, traces.scales.final.reshape(12), rtol=1e-12)
    x = np.asarray(rows)
    x = x - x.mean(axis=1, keepdims=True)
    by_hand = x / 2 @ np.asarray(weights.W_U) + np.asarray(weights.b_U)
    frozen, _ = unembed(weights, rows, spec, 2 * jnp.ones(12))
    np.testing.assert_allclose(frozen, by_hand, rtol=1e-11, atol=1e-12)


def test_missing_or_short_position_tables_are_refused(make_transformer) -> None:
    spec = ForwardSpec(0.5, positions=Positions.learned)
    with pytest.raises(ValueError, match=r"positions=learned needs weights\.W_pos"):
        run(make_transformer(**SMALL), FOUR, spec)
    weights = make_transformer(**SMALL, table=True)
    with pytest.raises(ValueError, match=r"n_ctx=6 positions, must have at most the 4"):
        run(weights, TOKENS, spec)


@pytest.mark.parametrize(
    ("field", "value"),
    [("score_scale", float("inf")), ("norm_eps", 0.0), ("rotary_base", -1.0)],
)
def test_spec_refuses_impossible_numbers(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}={value} must be"):
        ForwardSpec(**({"score_scale": 1.0} | {field: value}))
