"""Losses of selections of paths, against the paths they keep."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms, term_losses
from circuitax.circuits.paths import expansion, frozen
from circuitax.circuits.paths import orders as order_terms
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


def test_losses_by_order_end_at_the_models_loss(make_run, x64):
    run = make_run(2, biases=True, norm=Norm.rmsnorm)
    model = frozen.frozen_model(run)
    orders = order_terms.order_streams(model)
    losses = jax.jit(term_losses.selection_losses)(run, orders, term_losses.cumulative(3))
    np.testing.assert_allclose(losses[-1], next_token_losses(run.logits, run.tokens), atol=1e-12)
    scale = np.asarray(run.trace.scales.final)[:, None]
    gain_folded = np.asarray(model.read_out.W_U)
    logits = np.asarray(orders[0]) / scale @ gain_folded + np.asarray(model.read_out.b_U)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(p[np.arange(4), np.asarray(run.tokens)[1:]])
    np.testing.assert_allclose(losses[0], expected, atol=1e-12)


def test_marginals_telescope():
    losses = jnp.array([5.0, 2.0, 1.5])
    found = term_losses.marginals(losses, jnp.asarray(6.0))
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
    found = jax.jit(term_losses.shapley)(jnp.asarray(values))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(0), values[-1] - values[0], atol=1e-12)


def _loss(logits, tokens):
    logits = np.asarray(logits)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -log_p[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]]


@pytest.mark.parametrize("n_layers", [0, 1, 2, 3])
def test_rows_are_losses_of_the_paths_they_keep(n_layers, make_run, x64):
    run = make_run(n_layers, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    found = jax.jit(term_losses.term_losses)(run)
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
    found = term_losses.term_losses(run)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found.order[-1], whole, atol=1e-10)
    np.testing.assert_allclose(found.first_order[-1], whole, atol=1e-10)
    terms, bias = (np.asarray(x) for x in expansion.expand(run)[:2])
    lengths = np.array([len(path) for path in expansion.all_paths(2, run.model.spec.n_heads)])
    direct = _loss(terms[lengths == 0].sum(0) + bias[None], run.tokens)
    np.testing.assert_allclose(found.order[0], direct, atol=1e-10)


def test_selections_of_two_layers_by_hand():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    np.testing.assert_array_equal(term_losses.first_order_selections(2), expected)


def test_score_losses_without_composition(make_run, x64):
    """All terms give the model's loss; layer 0 has nothing that composes."""
    run = make_run(2, positions=Positions.shortformer)
    found = jax.jit(term_losses.score_losses)(run)
    assert len(found) == len(score_terms.SELECTIONS)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found[0], whole, atol=1e-12)
    assert np.abs(found[1:] - whole[None]).max(axis=1).min() > 1e-4
    np.testing.assert_allclose(term_losses.score_losses(run, 0), [whole] * 4, atol=1e-12)
