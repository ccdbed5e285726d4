"""Laws of features: unequal frequencies, and dependence through a Gaussian copula.

NumPy is used, not JAX, so that records can be read with these functions.

Feature i is on where a standard normal ``z_i`` is below the p-quantile, and the correlation matrix
R of z is free. Every feature by itself is then the same whatever R is, so that a difference in
loss is due to dependence alone. NumPy is used, not JAX, since records are read with this.
"""

import numpy as np
from numpy.typing import ArrayLike

MEAN_SQUARE = 4 / 3
"""Mean of ``v^2`` for a value v that is uniform on [0, 2]."""


def power_law(n_features: int, exponent: float | int, active: float | int = 1.0) -> np.ndarray:
    """``p_i = c i^-α / sum_j j^-α`` for i = 1..n: c features are on in a sample, on average.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), feature frequencies.
    """
    weight = np.arange(1, n_features + 1, dtype=np.float64) ** -float(exponent)
    density = active * weight / weight.sum()
    if density[0] > 1 + 1e-12:
        raise ValueError(
            f"active={active} must be at most {1 / (weight[0] / weight.sum()):g} for "
            f"exponent={exponent}: the most frequent feature has density {density[0]:g}"
        )
    return np.minimum(density, 1)


def unlearned_loss(
    density: ArrayLike, n_learned: ArrayLike | int, mean_square: float | int = MEAN_SQUARE
) -> np.ndarray:
    """``<v^2> sum_{i > k} p_i``: the first k features are perfect, and all others give 0.

    It is the loss of a model without superposition, whose k is its width. The bias of a feature
    that is given back as 0 could still save ``<v>^2 p_i^2``, which is second order in p.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), weak superposition.
    """
    p = np.asarray(density, np.float64)
    tail = np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])
    return np.asarray(mean_square * tail[np.asarray(n_learned, int)])


# Gauss-Legendre nodes for an integrand that is smooth unless a correlation is near -1.
N_NODES = 96


def circular_correlation(n_features: int, strength: float | int) -> np.ndarray:
    """``R_ij = s cos(2π (i - j) / n)`` for i ≠ j: features on a circle, such as months."""
    turn = 2 * np.pi * np.arange(n_features) / n_features
    return _with_unit_diagonal(strength * np.cos(turn[:, None] - turn[None, :]))


def clustered_correlation(n_features: int, n_clusters: int, strength: float | int) -> np.ndarray:
    """``R_ij = s`` inside a cluster of neighbouring features, ``-s / (2 (c - 1))`` between them."""
    cluster = np.arange(n_features) // (n_features // n_clusters)
    same = cluster[:, None] == cluster[None, :]
    return _with_unit_diagonal(np.where(same, strength, -strength / (2 * (n_clusters - 1))))


def co_activation(correlation: ArrayLike | float, density: float) -> np.ndarray:
    """P(both features are on), ``Φ_2(t, t; R_ij)`` with ``t = Φ^-1(p)``; p itself for ``R = 1``.

    Source: Plackett 1954, reduction of the bivariate normal integral.
    """
    r = np.asarray(correlation, np.float64)
    from scipy.special import ndtri  # costs a quarter of a second: only when it is needed

    node, weight = np.polynomial.legendre.leggauss(N_NODES)
    angle = np.arcsin(r)[..., None] * (node + 1) / 2
    height = np.exp(-(float(ndtri(density)) ** 2) / (1 + np.sin(angle)))
    return np.asarray(density**2 + (height @ weight) * np.arcsin(r) / (4 * np.pi))


def feature_covariance(correlation: ArrayLike | float, density: float) -> np.ndarray:
    """Covariance of features whose values, where on, are independent and uniform on [0, 1]."""
    covariance = (co_activation(correlation, density) - density**2) / 4
    np.fill_diagonal(covariance, density / 3 - density**2 / 4)
    return covariance


def _with_unit_diagonal(correlation: np.ndarray) -> np.ndarray:
    np.fill_diagonal(correlation, 1)
    return correlation
