"""Frequencies of features, and features that depend on each other."""

import numpy as np
import pytest
from scipy import stats

from circuitax.superposition.feature_laws import (
    circular_correlation,
    clustered_correlation,
    co_activation,
    feature_covariance,
    power_law,
    unlearned_loss,
)


def test_frequencies_of_a_power_law() -> None:
    p = power_law(4, 2, active=0.5)
    np.testing.assert_allclose(p, 0.5 * np.array([1, 1 / 4, 1 / 9, 1 / 16]) / (205 / 144))
    np.testing.assert_allclose(power_law(3, 0), 1 / 3)
    with pytest.raises(ValueError, match=r"active=2 must be at most 1\.42"):
        power_law(4, 2, active=2)


def test_the_ignored_tail_is_its_sum() -> None:
    p = np.array([0.5, 0.2, 0.1])
    found = unlearned_loss(p, np.array([0, 1, 3]))
    np.testing.assert_allclose(found, [4 / 3 * 0.8, 4 / 3 * 0.3, 0], atol=1e-15)
    assert unlearned_loss(p, 2, mean_square=1.0) == pytest.approx(0.1)


def test_correlations_of_circles_and_clusters() -> None:
    circle = circular_correlation(4, 0.8)
    np.testing.assert_allclose(circle[0], [1, 0, -0.8, 0], atol=1e-15)
    clusters = clustered_correlation(6, 3, 0.9)
    np.testing.assert_allclose(clusters[2], [-0.225, -0.225, 1, 0.9, -0.225, -0.225])
    for R in (circular_correlation(12, 0.99), clustered_correlation(12, 3, 0.99)):
        assert np.linalg.eigvalsh(R)[0] > 0.009


def test_two_features_are_on_together_as_often_as_the_bivariate_normal_says() -> None:
    r = np.array([-0.95, -0.4, 0.0, 0.6, 0.97])
    t = stats.norm.ppf(0.2)
    law, how = stats.multivariate_normal, {"abseps": 1e-12, "releps": 1e-12}
    wanted = [law.cdf([t, t], [0, 0], [[1, a], [a, 1]], **how) for a in r]
    np.testing.assert_allclose(co_activation(r, 0.2), wanted, rtol=1e-7, atol=1e-9)
    # Sheppard: at p = 1/2 the probability is 1/4 + asin(r) / 2π.
    np.testing.assert_allclose(co_activation(r, 0.5), 0.25 + np.arcsin(r) / (2 * np.pi), rtol=1e-12)
    assert co_activation(1.0, 0.3) == pytest.approx(0.3, rel=1e-9)


def test_the_covariance_is_that_of_both_being_on_times_the_squared_mean_value() -> None:
    covariance = feature_covariance(np.array([[1, 0.6], [0.6, 1]]), 0.5)
    between, own = np.arcsin(0.6) / (2 * np.pi) / 4, 0.5 / 3 - 0.25**2
    np.testing.assert_allclose(covariance, [[own, between], [between, own]], rtol=1e-9)
