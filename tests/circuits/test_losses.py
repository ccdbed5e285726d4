"""Losses in context: bigram tables, slopes, and windows of change by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import losses as of
from circuitax.circuits import score_terms
from circuitax.circuits.losses import (
    bigram_log_probs,
    change_window,
    direct_path_log_probs,
    loss_slope,
    progress,
    reached,
    steepest_stretch,
)
from circuitax.circuits.paths import expansion, frozen
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init

SPEC = TransformerSpec.simplified(d_vocab=7, n_layers=0, n_heads=1, d_model=7)


def test_S0_remark_21_prediction_depends_on_the_current_token_alone() -> None:
    model = init(jax.random.key(1), SPEC)
    table = bigram_log_probs(model)
    np.testing.assert_allclose(table, direct_path_log_probs(model), rtol=1e-5)
    for text in ([3, 1, 4], [5, 5, 4]):
        logits, _ = forward(model, text)
        np.testing.assert_allclose(jax.nn.log_softmax(logits[-1]), table[4], rtol=1e-5)


def test_direct_path_adds_the_bias() -> None:
    model = init(jax.random.key(1), SPEC).replace(b_U=jnp.arange(7.0))
    by_hand = np.asarray(model.W_E @ model.W_U, float) + np.arange(7.0)
    by_hand -= np.log(np.exp(by_hand).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(direct_path_log_probs(model), by_hand, rtol=1e-5, atol=1e-6)


def test_in_context_score_is_late_minus_early():
    losses = jnp.array([[5.0, 4.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_allclose(of.in_context_score(losses, 2, 4), [-3, 0])


def test_repeated_pairs_of_any_period():
    tokens = jnp.array([0, 1, 2, 0, 1, 3, 0, 1])
    # pairs 01 12 20 01 13 30 01: the fourth and the last are repeats
    np.testing.assert_array_equal(
        of.repeated_pairs(tokens), [False, False, False, True, False, False, True]
    )


def test_exact_where_the_loss_is_a_logarithm(x64: None) -> None:
    index = np.arange(1, 41)
    losses = jnp.asarray(3.0 - 0.7 * np.log(index))
    np.testing.assert_allclose(loss_slope(losses), -0.7, atol=1e-12)
    np.testing.assert_allclose(loss_slope(jnp.full(40, 2.0)), 0.0, atol=1e-12)


def test_is_the_line_through_the_neighbourhood(x64: None) -> None:
    losses = np.random.default_rng(0).normal(size=(3, 30))
    found = loss_slope(jnp.asarray(losses), span=2.0)
    # index 10: those from 10 / sqrt 2 = 7.07 to 14.14
    for row, slope in zip(losses, found, strict=True):
        line = np.polyfit(np.log(np.arange(8, 15)), row[7:14], 1)
        np.testing.assert_allclose(slope[9], line[0], rtol=1e-10)
    # the first index has only its neighbour
    np.testing.assert_allclose(found[:, 0], (losses[:, 1] - losses[:, 0]) / np.log(2), rtol=1e-10)


STEPS = jnp.arange(0, 101, 5)


def test_progress_by_hand() -> None:
    np.testing.assert_allclose(progress(jnp.array([3.0, 2.0, 1.0])), [0, 0.5, 1])
    np.testing.assert_array_equal(progress(jnp.array([2.0, 2.0])), [0, 0])


def test_window_of_a_ramp() -> None:
    # Flat at 3 until step 40, falls linearly to 1 at step 60, flat after.
    ramp = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(change_window(STEPS, ramp), [42, 50, 58], atol=1e-4)
    # Direction and units play no part; axes in front are mapped.
    both = jnp.stack([ramp, 7 - 5 * ramp])
    np.testing.assert_allclose(reached(STEPS, both, 0.5), [50, 50], atol=1e-4)


def test_a_curve_that_never_changes_is_reached_at_the_end() -> None:
    assert float(reached(STEPS, jnp.ones(21), 0.5)) == 100


def test_first_crossing_counts() -> None:
    curve = jnp.array([0.0, 0.8, 0.2, 1.0])
    assert float(reached(jnp.arange(4), curve, 0.4)) == pytest.approx(0.5)


def test_steepest_stretch_of_a_ramp() -> None:
    ramp = jnp.interp(STEPS, jnp.array([40, 60]), jnp.array([3.0, 1.0]))
    np.testing.assert_allclose(steepest_stretch(STEPS, ramp, 20.0), [40, 2], atol=1e-5)
    # A narrow one fits at several places and takes the first; a wide one holds the whole ramp.
    np.testing.assert_allclose(steepest_stretch(STEPS, ramp, 10.0), [40, 1], atol=1e-5)
    assert float(steepest_stretch(STEPS, ramp, 40.0).fall) == pytest.approx(2.0, abs=1e-5)
    rising = steepest_stretch(STEPS, STEPS / 10.0, 10.0)
    assert float(rising.fall) == pytest.approx(-1.0, abs=1e-5)
    both = steepest_stretch(STEPS, jnp.stack([ramp, ramp[::-1] * -1]), 20.0)
    np.testing.assert_allclose(both.start, [40, 40])


def test_losses_by_order_end_at_the_models_loss(make_run, x64):
    run = make_run(2, biases=True, norm=Norm.rmsnorm)
    model = frozen.frozen_model(run)
    orders = expansion.order_streams(model)
    losses = jax.jit(of.selection_losses)(run, orders, of.cumulative(3))
    np.testing.assert_allclose(losses[-1], next_token_losses(run.logits, run.tokens), atol=1e-12)
    scale = np.asarray(run.trace.scales.final)[:, None]
    gain_folded = np.asarray(model.read_out.W_U)
    logits = np.asarray(orders[0]) / scale @ gain_folded + np.asarray(model.read_out.b_U)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(p[np.arange(4), np.asarray(run.tokens)[1:]])
    np.testing.assert_allclose(losses[0], expected, atol=1e-12)


def test_marginals_telescope():
    losses = jnp.array([5.0, 2.0, 1.5])
    found = of.marginals(losses, jnp.asarray(6.0))
    np.testing.assert_allclose(found, [1, 3, 0.5])


def test_shapley_is_the_mean_over_orders_of_arrival(rng, x64):
    n = 4
    values = rng.normal(size=(2**n, 3))
    expected = np.zeros((n, 3))
    arrivals = list(itertools.permutations(range(n)))
    for order in arrivals:
        mask = 0
        for player in order:
            expected[player] += (values[mask | 1 << player] - values[mask]) / len(arrivals)
            mask |= 1 << player
    found = jax.jit(of.shapley)(jnp.asarray(values))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(0), values[-1] - values[0], atol=1e-12)


def _loss(logits, tokens):
    logits = np.asarray(logits)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -log_p[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]]


@pytest.mark.parametrize("n_layers", [0, 1, 2, 3])
def test_rows_are_losses_of_the_paths_they_keep(n_layers, make_run, x64):
    run = make_run(n_layers, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    found = jax.jit(of.term_losses)(run)
    terms, bias = (np.asarray(x) for x in expansion.expand(run)[:2])
    layers = [{layer for layer, _ in path} for path in expansion.all_paths(n_layers, 2)]

    def kept(keep):
        # output biases belong to the direct path, so that sums of terms are the whole of it
        return _loss(terms[[keep(on) for on in layers]].sum(0) + bias[None], run.tokens)

    by_order = [kept(lambda on, k=k: len(on) <= k) for k in range(n_layers + 1)]
    np.testing.assert_allclose(found.order, by_order, atol=1e-10)
    rows = [kept(lambda on: not on)]
    rows += [kept(lambda on, one=layer: on <= {one}) for layer in range(n_layers)]
    rows += [kept(lambda on: len(on) <= 1), kept(lambda on: True)]
    np.testing.assert_allclose(found.first_order, rows, atol=1e-10)
    np.testing.assert_allclose(
        found.order[-1], next_token_losses(run.logits, run.tokens), atol=1e-10
    )


def test_what_mlps_wrote_counts_to_order_0(make_run, x64):
    run = make_run(2, mlp=True, norm=Norm.layernorm)
    found = of.term_losses(run)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found.order[-1], whole, atol=1e-10)
    np.testing.assert_allclose(found.first_order[-1], whole, atol=1e-10)
    terms, bias = (np.asarray(x) for x in expansion.expand(run)[:2])
    lengths = np.array([len(path) for path in expansion.all_paths(2, run.model.spec.n_heads)])
    direct = _loss(terms[lengths == 0].sum(0) + bias[None], run.tokens)
    np.testing.assert_allclose(found.order[0], direct, atol=1e-10)


def test_selections_of_two_layers_by_hand():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    np.testing.assert_array_equal(of.first_order_selections(2), expected)


def test_score_losses_without_composition(make_run, x64):
    """All terms give the model's loss; layer 0 has nothing that composes."""
    run = make_run(2, positions=Positions.shortformer)
    found = jax.jit(of.score_losses)(run)
    assert len(found) == len(score_terms.SELECTIONS)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found[0], whole, atol=1e-12)
    assert np.abs(found[1:] - whole[None]).max(axis=1).min() > 1e-4
    np.testing.assert_allclose(of.score_losses(run, 0), [whole] * 4, atol=1e-12)
