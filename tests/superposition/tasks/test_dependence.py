"""Dependent features: correlations, how often two are on together, and the best linear model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.toy import copula_columns
from circuitax.models.toy import ToySpec
from circuitax.superposition.feature_laws import (
    circular_correlation,
    clustered_correlation,
    co_activation,
    feature_covariance,
    linear_optimum,
)
from experiments.superposition.toy_constructive.problem import DependentHyper, DependentToy


def test_correlations_of_circles_and_clusters() -> None:
    circle = circular_correlation(4, 0.8)
    np.testing.assert_allclose(circle[0], [1, 0, -0.8, 0], atol=1e-15)
    clusters = clustered_correlation(6, 3, 0.9)
    np.testing.assert_allclose(clusters[2], [-0.225, -0.225, 1, 0.9, -0.225, -0.225])
    for R in (circular_correlation(12, 0.99), clustered_correlation(12, 3, 0.99)):
        assert np.linalg.eigvalsh(R)[0] > 0.009
    with pytest.raises(ValueError, match="n_clusters=4 must divide n_features=6"):
        clustered_correlation(6, 4, 0.5)


def test_two_features_are_on_together_as_often_as_the_bivariate_normal_says() -> None:
    r = np.array([-0.95, -0.4, 0.0, 0.6, 0.97])
    t = stats.norm.ppf(0.2)
    law, how = stats.multivariate_normal, {"abseps": 1e-12, "releps": 1e-12}
    wanted = [law.cdf([t, t], [0, 0], [[1, a], [a, 1]], **how) for a in r]
    np.testing.assert_allclose(co_activation(r, 0.2), wanted, rtol=1e-7, atol=1e-9)
    # Sheppard: at p = 1/2 the probability is 1/4 + asin(r) / 2π.
    np.testing.assert_allclose(co_activation(r, 0.5), 0.25 + np.arcsin(r) / (2 * np.pi), rtol=1e-12)
    assert co_activation(1.0, 0.3) == pytest.approx(0.3, rel=1e-9)
    with pytest.raises(ValueError, match=r"correlation=-1\.0 must be in"):
        co_activation(-1.0, 0.2)


def test_samples_have_the_stated_density_and_covariance() -> None:
    R = circular_correlation(5, 0.9)
    rng = np.random.default_rng(0)
    normal, value = rng.normal(size=(5, 200_000)), rng.uniform(size=(5, 200_000))
    draws = (jnp.asarray(a, float) for a in (normal, value, np.linalg.cholesky(R)))
    x = np.asarray(copula_columns(*draws, jnp.full(5, 0.2)))
    np.testing.assert_allclose((x > 0).mean(axis=1), 0.2, atol=5e-3)
    np.testing.assert_allclose(np.cov(x), feature_covariance(R, 0.2), atol=6e-4)


def test_the_best_linear_model_keeps_the_largest_principal_components() -> None:
    R = clustered_correlation(6, 2, 0.8)
    covariance = feature_covariance(R, 0.3)
    vectors = np.linalg.eigh(covariance).eigenvectors
    kept = vectors[:, -2:] @ vectors[:, -2:].T
    error = np.eye(6) - kept
    assert linear_optimum(covariance, 2) == pytest.approx(np.trace(error @ covariance @ error))
    assert linear_optimum(covariance, 6) == 0 < linear_optimum(covariance, 0)
    assert linear_optimum(covariance, 0) == pytest.approx(6 * (0.1 - 0.0225))


def test_the_loss_of_dependent_features_against_numpy() -> None:
    with jax.enable_x64(True):
        problem = DependentToy(ToySpec(4, 2), batch_size=30)
        root = jnp.asarray(np.linalg.cholesky(circular_correlation(4, 0.7)))
        hyper = DependentHyper(root, jnp.full(4, 0.4), jnp.asarray(0.2))
        params = problem.init(jax.random.key(0), hyper)._replace(b=jnp.arange(4.0) / 10)
        batch = problem.batch(jax.random.key(1), jnp.asarray(2))
        found = jax.jit(problem.loss)(params, batch, hyper)
        pull = problem.decay(params, hyper)
    on = np.asarray(root) @ np.asarray(batch.normal) < stats.norm.ppf(0.4)
    x = np.where(on, np.asarray(batch.value), 0)
    W = np.asarray(params.W)
    output = np.maximum(W.T @ (W @ x) + np.asarray(params.b)[:, None], 0)
    assert float(found) == pytest.approx(((output - x) ** 2).sum(axis=0).mean(), rel=1e-12)
    np.testing.assert_allclose(pull.b, 0.2 * np.arange(4) / 10)
