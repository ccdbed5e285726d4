"""Exact laws of the distortion of one pair under random maps, on the host with SciPy.

In all of them ``f(z)`` is the image of ``z = x − y``, and the ratio is ``‖f(z)‖² / ‖z‖²``. Theorem
27 is that of "Some Structures in Transformer Architectures" (Menon 2025).
"""

import math

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from scipy import optimize, special

from circuitax.kernel.checks import check_range

Values = NDArray[np.float64]


def ratio_cdf(ratio: ArrayLike, dim_out: ArrayLike) -> Values:
    """``P(‖f(z)‖² ≤ ratio ‖z‖²)`` for a Gaussian map: the law of ``χ²_m / m``.

    Exact for every z: ``f(z) / ‖z‖`` has m independent N(0, 1/m) entries.
    """
    m = _dims("dim_out", dim_out)
    return np.asarray(special.gammainc(m / 2, m * np.asarray(ratio, float) / 2))


def ratio_quantile(level: ArrayLike, dim_out: ArrayLike) -> Values:
    """The ratio below which a Gaussian map falls with probability ``level``."""
    m = _dims("dim_out", dim_out)
    return np.asarray(special.gammaincinv(m / 2, level) * 2 / m)


def failure_probability(dim_out: ArrayLike, low: ArrayLike, high: ArrayLike) -> Values:
    """``P(ratio < low) + P(ratio > high)`` of a pair and a Gaussian map, without cancellation."""
    m = _dims("dim_out", dim_out)
    above = special.gammaincc(m / 2, m * np.asarray(high, float) / 2)
    return np.asarray(ratio_cdf(low, m) + above)


def extreme_ratios(n_pairs: int, dim_out: ArrayLike) -> tuple[Values, Values]:
    """Median of the least and of the greatest ratio over many pairs, for a Gaussian map.

    The formula, ``(1 − P(ratio beyond))^n_pairs = 1/2`` on each side, takes pairs as independent.
    The pairs of a cloud share points and are not, but the extremes of clouds come close to it.
    """
    m, share = _dims("dim_out", dim_out), -np.expm1(-math.log(2) / n_pairs)
    low, high = special.gammaincinv(m / 2, share), special.gammainccinv(m / 2, share)
    return np.asarray(low * 2 / m), np.asarray(high * 2 / m)


def median_threshold(n_points: int, epsilon: float, success: float = 0.5) -> float:
    """The m at which a Gaussian map keeps all pairs within ε with probability ``success``.

    Solves ``exp(−N (N − 1)/2 · P(|ratio − 1| > ε)) = success``, with pairs taken as independent;
    m is treated as continuous.
    """
    target = -math.log(success) / (n_points * (n_points - 1) / 2)

    def excess(log_m: float) -> float:
        share = float(failure_probability(math.exp(log_m), 1 - epsilon, 1 + epsilon))
        return math.log(max(share, 1e-300)) - math.log(target)

    if excess(0.0) <= 0:
        return 1.0
    return math.exp(optimize.brentq(excess, 0.0, math.log(700 / (epsilon - math.log1p(epsilon)))))


def ratio_variance(kurtosis: float, participation: float, dim_out: ArrayLike) -> Values:
    """Variance of ``‖f(z)‖² / ‖z‖²`` for independent entries of variance 1/m.

    ``(2 + (κ − 3) Σ_i z_i⁴ / ‖z‖⁴) / m``. For entries ±1 (κ = 1) this is below the ``2/m`` of a
    Gaussian map, and 0 for one-hot z; for sparse maps and sparse z it is above.
    """
    return np.asarray((2 + (kurtosis - 3) * participation) / _dims("dim_out", dim_out))


def overlap_tail(dim: ArrayLike, epsilon: ArrayLike) -> Values:
    """``P(|⟨u, v⟩| > ε)`` for independent uniform unit vectors: ``I_{1−ε²}((d−1)/2, 1/2)``.

    ``⟨u, v⟩²`` is Beta(1/2, (d − 1)/2). It is also the law of ``cos θ_f`` for x ⊥ y and a Gaussian
    map to d dimensions.
    """
    d = _dims("dim", dim, least=2)
    return np.asarray(special.betainc((d - 1) / 2, 0.5, 1 - np.asarray(epsilon, float) ** 2))


def random_capacity(dim: ArrayLike, epsilon: float, success: float = 0.5) -> Values:
    """Number of random unit vectors that are ε-orthogonal with probability ``success``.

    Solves ``exp(−N (N − 1) p / 2) = success`` with p from `overlap_tail`: pairs of random
    directions are pairwise independent, so the number of failing pairs is close to Poisson. The
    growth is ``exp(−d ln(1 − ε²) / 4) ≈ exp(d ε² / 4)``.
    """
    pairs = -math.log(success) / overlap_tail(dim, epsilon)
    return np.asarray((1 + np.sqrt(1 + 8 * pairs)) / 2)


def _dims(name: str, dim: ArrayLike, least: int = 1) -> Values:
    check_range(name, dim, f"[{least}, inf)")
    return np.asarray(dim, float)
