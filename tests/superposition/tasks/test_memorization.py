"""T-gons that memorise: exact, least, and against the loss that training minimises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.toy import unit_columns
from circuitax.models.toy import ToySpec
from circuitax.superposition.features import dimensionality
from circuitax.superposition.kgons import (
    reconstruction_loss,
    tgon_norm,
    tgon_weights,
)
from experiments.superposition.toy_memorization.problem import MemorizingToy, TrainingSet


def disjoint(n_points: int) -> np.ndarray:
    """Samples of unit norm with three features each."""
    values = np.random.default_rng(n_points).uniform(0.1, 1, (n_points, 3))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    x = np.zeros((3 * n_points, n_points))
    for t in range(n_points):
        x[3 * t : 3 * t + 3, t] = values[t]
    return x


def test_a_tgon_memorises_from_its_least_norm_on() -> None:
    for size in (3, 4, 7):
        x = disjoint(size)
        least = float(tgon_norm(size))
        assert least == pytest.approx((1 - np.cos(2 * np.pi / size)) ** -0.5, rel=1e-12)
        losses = []
        for norm in (least, 1.3 * least, 0.9 * least):
            W, b = tgon_weights(x, norm)
            losses.append(reconstruction_loss(W, b, x))
            np.testing.assert_allclose(np.linalg.norm(W @ x, axis=0), norm, rtol=1e-12)
        assert max(losses[:2]) < 1e-24
        # Both neighbours of a sample are driven to 1 - 0.81.
        assert losses[2] == pytest.approx(2 * 0.19**2, rel=1e-9)
    with jax.enable_x64(True):
        np.testing.assert_allclose(dimensionality(jnp.asarray(W @ x)), 2 / 7, rtol=1e-9)
    with pytest.raises(ValueError, match="n_points=1 must be"):
        tgon_norm(1)


def test_the_training_loss_is_that_of_the_first_points() -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (6, 9)))
        problem = MemorizingToy(ToySpec(6, 2))
        hyper = TrainingSet(x, jnp.asarray(4.0), jnp.asarray(0.3))
        params = problem.init(jax.random.key(2), hyper)
        params = params._replace(b=params.b + 0.1)
        found = jax.jit(problem.loss)(params, (), hyper)
        grad = jax.grad(lambda seen: problem.loss(params, (), hyper._replace(x=seen)))(x)
        pull = problem.decay(params, hyper)
    W, b = np.asarray(params.W), np.asarray(params.b)
    first = np.asarray(x)[:, :4]
    wanted = np.mean([((np.maximum(W.T @ W @ t + b, 0) - t) ** 2).sum() for t in first.T])
    assert float(found) == pytest.approx(wanted, rel=1e-12)
    assert reconstruction_loss(W, b, first) == pytest.approx(wanted, rel=1e-12)
    assert np.asarray(grad)[:, :4].any() and not np.asarray(grad)[:, 4:].any()
    np.testing.assert_allclose(pull.W, 0.3 * W)
    np.testing.assert_allclose(pull.b, 0.03)


def test_samples_of_unit_norm_and_samples_without_a_feature() -> None:
    u = jnp.array([[0.1, 0.9, 0.05], [0.15, 0.8, 0.7], [0.6, 0.95, 0.6]])
    x = np.asarray(unit_columns(u, jnp.full(3, 0.2)))
    np.testing.assert_allclose(x[:, 0], np.array([0.5, 0.75, 0]) / np.hypot(0.5, 0.75), rtol=1e-6)
    np.testing.assert_array_equal(x[:, 1], [0, 1, 0])
    np.testing.assert_array_equal(x[:, 2], [1, 0, 0])
    with pytest.raises(ValueError, match="density"):
        unit_columns(u, jnp.zeros(3))
