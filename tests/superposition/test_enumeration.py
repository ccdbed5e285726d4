"""Losses by enumeration against Sobol points and closed forms."""

import numpy as np
import pytest
from scipy.stats import qmc

from circuitax.superposition.enumeration import enumerated_loss


def random_model(rng, n, m):
    W, b = 0.6 * rng.normal(size=(m, n)), 0.2 * rng.normal(size=n)
    return W, b, rng.uniform(0.1, 0.9, n), rng.uniform(0.3, 1, n)


def quasi_random(W, b, p, importance, activation, log2=15):
    """Mean and standard error over eight scramblings of a Sobol sequence."""
    means = []
    for seed in range(8):
        u = qmc.Sobol(len(b), seed=seed).random_base2(log2)
        x = np.where(u < p, u / p, 0)
        t = x @ W.T @ W + b
        out = np.maximum(t, 0) if activation == "relu" else t
        means.append(((x - out) ** 2 @ importance).mean())
    return np.mean(means), np.std(means, ddof=1) / 8**0.5


@pytest.mark.parametrize("activation", ["relu", "linear"])
@pytest.mark.parametrize(("n", "m"), [(2, 1), (4, 2), (6, 3)])
def test_agrees_with_sobol_points_within_their_standard_error(rng, n, m, activation):
    model = random_model(rng, n, m)
    mean, error = quasi_random(*model, activation)
    assert abs(enumerated_loss(*model, activation) - mean) < 5 * error
    assert error < 1e-3 * mean


def test_two_digons_with_zero_bias_have_their_closed_form():
    W = np.array([[1.0, -1, 0, 0, 0], [0, 0, 1, -1, 0]])
    p = 0.3
    bias = np.array([0, 0, 0, 0, p / 2])
    expected = 4 * p**2 / 6 + p / 3 - p**2 / 4
    assert enumerated_loss(W, bias, np.full(5, p), np.ones(5)) == pytest.approx(expected, rel=1e-14)


def test_a_model_of_zeros_loses_the_second_moments():
    zero = np.zeros((2, 4))
    given = zero, np.zeros(4), np.full(4, 0.6), np.ones(4)
    assert enumerated_loss(*given) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="activation=gelu must be relu or linear"):
        enumerated_loss(*given, "gelu")
