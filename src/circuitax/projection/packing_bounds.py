"""Lower bounds on the coherence of N directions in R^d, and the implied upper bounds on N."""

import math

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from circuitax.kernel.checks import check_range
from circuitax.projection.tails import check_epsilon

Values = NDArray[np.float64]


def welch_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``√((N − d) / (d (N − 1)))``, the least coherence for N ≥ d; 0 for N ≤ d.

    Equiangular tight frames, which need ``N ≤ d (d + 1)/2``, meet it exactly. The mean square
    overlap obeys the same bound for every N.

    Source: Welch 1974.
    """
    n, d = _sizes(n_vectors, dim)
    return np.asarray(np.sqrt(np.maximum(n - d, 0) / (d * np.maximum(n - 1, 1))))


def orthoplex_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``1/√d`` for ``N > d (d + 1)/2``, else 0.

    Source: Conway, Hardin and Sloane 1996 (after Rankin 1955), real case.
    """
    n, d = _sizes(n_vectors, dim)
    return np.asarray(np.where(n > d * (d + 1) / 2, 1 / np.sqrt(d), 0.0))


def levenshtein_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``√((3N − d² − 2d) / ((d + 2)(N − d)))`` for ``N > d (d + 1)/2``, else 0.

    Source: Levenshtein 1982, as in Haas, Hammen and Mixon 2017, real case.
    """
    n, d = _sizes(n_vectors, dim)
    applies = n > d * (d + 1) / 2
    square = (3 * n - d * d - 2 * d) / ((d + 2) * np.where(applies, n - d, 1))
    return np.asarray(np.where(applies, np.sqrt(np.maximum(square, 0)), 0.0))


def coherence_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """The largest of the Welch, orthoplex and Levenshtein bounds."""
    bounds = [f(n_vectors, dim) for f in (welch_bound, orthoplex_bound, levenshtein_bound)]
    return np.asarray(np.maximum.reduce(bounds))


def capacity_bound(dim: int, epsilon: float) -> float:
    """The largest N that `coherence_bound` allows at coherence ε; infinite if it has no bound.

    Welch gives ``N ≤ d (1 − ε²) / (1 − d ε²)`` for ``ε² < 1/d``, capped by orthoplex at
    ``d (d + 1)/2``; Levenshtein ``N ≤ d (d + 2)(1 − ε²) / (3 − (d + 2) ε²)`` for
    ``1/d ≤ ε² < 3/(d + 2)``. Beyond that only the exponential bound `kabatiansky_levenshtein`
    is left.

    Source: Welch 1974; Levenshtein 1982.
    """
    check_epsilon(epsilon)
    _sizes(1, dim)
    square = epsilon**2
    if square < 1 / dim:
        welch = dim * (1 - square) / (1 - dim * square)
        return min(welch, dim * (dim + 1) / 2)
    if square < 3 / (dim + 2):
        return dim * (dim + 2) * (1 - square) / (3 - (dim + 2) * square)
    return math.inf


def kabatiansky_levenshtein(epsilon: ArrayLike) -> Values:
    """Asymptotic upper bound on ``ln N / d`` for directions with |⟨u, v⟩| ≤ ε as d grows.

    With ``s = √(1 − ε²)``: ``(1+s)/(2s) ln((1+s)/(2s)) − (1−s)/(2s) ln((1−s)/(2s))``, about
    ``(ε²/2) ln(2e^{1/2}/ε)`` for small ε. A reference exponent, not a bound at finite d.

    Source: Kabatiansky and Levenshtein 1978, for spherical codes with angle arccos ε; a set of
        directions together with its negatives is such a code.
    """
    s = np.sqrt(1 - check_epsilon(epsilon) ** 2)
    plus, minus = (1 + s) / (2 * s), (1 - s) / (2 * s)
    return np.asarray(plus * np.log(plus) - minus * np.log(minus))


def random_exponent(epsilon: ArrayLike) -> Values:
    """``ln N / d`` of random directions: ``−ln(1 − ε²) / 4 ≈ ε²/4`` as d grows."""
    return np.asarray(-np.log1p(-(check_epsilon(epsilon) ** 2)) / 4)


def greedy_exponent(epsilon: ArrayLike) -> Values:
    """``ln N / d`` of greedy packings (Gilbert–Varshamov): ``−ln(1 − ε²) / 2 ≈ ε²/2``."""
    return np.asarray(2 * random_exponent(epsilon))


def _sizes(n_vectors: ArrayLike, dim: ArrayLike) -> tuple[Values, Values]:
    check_range("n_vectors", n_vectors, "[1, inf)")
    check_range("dim", dim, "[1, inf)")
    return np.asarray(n_vectors, float), np.asarray(dim, float)
