"""One-hot data of toy models: what is drawn, and the loss against its expectation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.kgons import one_hot_loss
from experiments.superposition.kgons.problem import OneHotBatch, OneHotHyper, OneHotToy


def test_the_loss_is_that_of_each_sample_and_its_mean_the_exact_one() -> None:
    rng, problem = np.random.default_rng(3), OneHotToy(4, 2, 20_000)
    W, b = rng.normal(size=(2, 4)), 0.2 * rng.normal(size=4)
    weights = TiedWeights(jnp.asarray(W), jnp.asarray(b))
    hyper = OneHotHyper(jnp.asarray(0.5))
    some = OneHotBatch(jnp.asarray([2, 0]), jnp.asarray([0.7, 0.2]))
    x = np.array([[0, 0, 0.7, 0], [0.2, 0, 0, 0]])
    by_hand = ((x - np.maximum(x @ W.T @ W + b, 0)) ** 2).sum(axis=1).mean()
    assert float(problem.loss(weights, some, hyper)) == pytest.approx(by_hand, rel=1e-5)
    drawn = problem.batch(jax.random.key(1), jnp.asarray(3))
    assert np.bincount(drawn.feature, minlength=4) == pytest.approx(5000, rel=0.05)
    exact = float(one_hot_loss(weights))
    assert float(problem.loss(weights, drawn, hyper)) == pytest.approx(exact, rel=0.05)
    start = problem.init(jax.random.key(0), hyper)
    assert start.W.shape == (2, 4) and 0.1 < float(jnp.std(start.W)) < 1 and not start.b.any()


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        OneHotToy(4, 2, 0)
