"""Losses of selections of terms; Shapley values against the average over all orders of arrival."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import term_losses
from circuitax.circuits.paths import frozen
from circuitax.circuits.paths import orders as order_terms
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.norm import Norm


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


def test_no_layers_no_players():
    assert term_losses.shapley(jnp.ones((1, 2))).shape == (0, 2)
    with pytest.raises(ValueError, match="6 subsets"):
        term_losses.shapley(jnp.ones(6))
