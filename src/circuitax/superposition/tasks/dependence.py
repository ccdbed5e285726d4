"""Features of equal density that depend on each other through a Gaussian copula.

Feature i is on where a standard normal ``z_i`` is below the p-quantile, and the correlation matrix
R of z is free. Every feature by itself is then the same whatever R is, so that a difference in
loss is due to dependence alone. NumPy is used, not JAX, since records are read with this.
"""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range

# Gauss-Legendre nodes for an integrand that is smooth unless a correlation is near -1.
N_NODES = 96


def circular_correlation(n_features: int, strength: float | int) -> np.ndarray:
    """``R_ij = s cos(2π (i - j) / n)`` for i ≠ j: features on a circle, such as months."""
    check_range("n_features", n_features, "[3, inf)")
    check_range("strength", strength, "[0, 1)")
    turn = 2 * np.pi * np.arange(n_features) / n_features
    return _with_unit_diagonal(strength * np.cos(turn[:, None] - turn[None, :]))


def clustered_correlation(n_features: int, n_clusters: int, strength: float | int) -> np.ndarray:
    """``R_ij = s`` inside a cluster of neighbouring features, ``-s / (2 (c - 1))`` between them."""
    check_range("n_clusters", n_clusters, "[2, inf)")
    check_range("strength", strength, "[0, 1)")
    if n_features % n_clusters:
        raise ValueError(f"n_clusters={n_clusters} must divide n_features={n_features}")
    cluster = np.arange(n_features) // (n_features // n_clusters)
    same = cluster[:, None] == cluster[None, :]
    return _with_unit_diagonal(np.where(same, strength, -strength / (2 * (n_clusters - 1))))


def co_activation(correlation: ArrayLike | float, density: float) -> np.ndarray:
    """P(both features are on), ``Φ_2(t, t; R_ij)`` with ``t = Φ^-1(p)``; p itself for ``R = 1``.

    Source: Plackett 1954, reduction of the bivariate normal integral.
    """
    check_range("density", density, "(0, 1)")
    r = np.asarray(correlation, np.float64)
    check_range("correlation", r, "(-1, 1]")
    from scipy.special import ndtri  # costs a quarter of a second: only when it is needed

    node, weight = np.polynomial.legendre.leggauss(N_NODES)
    angle = np.arcsin(r)[..., None] * (node + 1) / 2
    height = np.exp(-(float(ndtri(density)) ** 2) / (1 + np.sin(angle)))
    return np.asarray(density**2 + (height @ weight) * np.arcsin(r) / (4 * np.pi))


def feature_covariance(correlation: ArrayLike | float, density: float) -> np.ndarray:
    """Covariance of features whose values are independent and uniform on [0, 1] where they are on.
    """
    covariance = (co_activation(correlation, density) - density**2) / 4
    np.fill_diagonal(covariance, density / 3 - density**2 / 4)
    return covariance


def linear_optimum(covariance: ArrayLike, n_hidden: int) -> float:
    """The least loss of a linear model with a bias: the sum of all but the m largest eigenvalues.

    Source: Eckart and Young 1936: principal components.
    """
    values = np.linalg.eigvalsh(np.asarray(covariance, np.float64))
    check_range("n_hidden", n_hidden, f"[0, {values.size}]")
    return float(values[: values.size - n_hidden].sum())


def _with_unit_diagonal(correlation: np.ndarray) -> np.ndarray:
    np.fill_diagonal(correlation, 1)
    return correlation
