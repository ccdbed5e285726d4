import numpy as np
import pytest
from scipy import integrate
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


def test_two_features_by_nested_quadrature(rng):
    W, b, p, importance = random_model(rng, 2, 1)
    G = W.T @ W

    def unit(i, x):
        return importance[i] * (x[i] - max(G[i] @ x + b[i], 0)) ** 2

    total = 0.0
    for i in range(2):
        q, j = 1 - p, 1 - i
        kink = np.clip(-b[i] / G[i, i], 0, 1)

        def at(x, y, i=i):
            return unit(i, [x, y] if i == 0 else [y, x])

        total += q[i] * q[j] * at(0, 0)
        total += p[i] * q[j] * integrate.quad(at, 0, 1, args=(0,), points=[kink])[0]
        total += q[i] * p[j] * integrate.quad(lambda y, at=at: at(0, y), 0, 1)[0]
        nodes, weights = np.polynomial.legendre.leggauss(400)
        x = (nodes + 1) / 2
        both = np.array([[at(a, c) for a in x] for c in x])
        total += p[i] * p[j] * (weights @ both @ weights) / 4
    assert enumerated_loss(W, b, p, importance) == pytest.approx(total, abs=2e-6)


def test_linear_model_has_its_second_moments(rng):
    W, b, p, importance = random_model(rng, 5, 2)
    residual = np.eye(5) - W.T @ W
    mean = p / 2
    covariance = np.diag(p / 3 - p**2 / 4)
    expected = importance @ (
        np.einsum("ij,jk,ik->i", residual, covariance, residual) + (residual @ mean - b) ** 2
    )
    assert enumerated_loss(W, b, p, importance, "linear") == pytest.approx(expected, rel=1e-13)


def test_two_digons_with_zero_bias_have_their_closed_form():
    W = np.array([[1.0, -1, 0, 0, 0], [0, 0, 1, -1, 0]])
    p = 0.3
    bias = np.array([0, 0, 0, 0, p / 2])
    expected = 4 * p**2 / 6 + p / 3 - p**2 / 4
    assert enumerated_loss(W, bias, np.full(5, p), np.ones(5)) == pytest.approx(expected, rel=1e-14)


def test_a_model_of_zeros_loses_the_second_moments():
    zero = np.zeros((2, 4))
    assert enumerated_loss(zero, np.zeros(4), np.full(4, 0.6), np.ones(4)) == pytest.approx(0.8)


def test_too_many_features():
    with pytest.raises(ValueError, match="n_features=10 must be at most 9"):
        enumerated_loss(np.zeros((2, 10)), np.zeros(10), np.zeros(10), np.ones(10))


def test_unknown_activation():
    with pytest.raises(ValueError, match="must be 'relu' or 'linear'"):
        enumerated_loss(np.zeros((1, 2)), np.zeros(2), np.zeros(2), np.ones(2), "gelu")
