"""Exact laws and tail bounds of the distortion under random maps, on the host with SciPy.

In all of them ``f(z)`` is the image of ``z = x − y``, and the ratio is ``‖f(z)‖² / ‖z‖²``. Theorem
27 is that of "Some Structures in Transformer Architectures" (Menon 2025).

Dimensions that suffice for N points and ε, of which each belongs to a statement of its own; for
N = 100 and ε = 0.3:

- 512, `dasgupta_gupta_dim`: a map that keeps all pairs exists. `statement_constant` gives the same
  number, by ``m = C ln N / ε²``.
- 678, `jl_dimension`: one random map keeps all pairs with probability at least 1 − δ, here 0.95.
  For Gaussian maps alone it is 479 (``tail="exact"``).
- 1,820, by `proof_constant`: what the proof of Theorem 27 takes for a map with another scale.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import enum
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import optimize, special, stats

from circuitax.kernel.checks import check_range, choice, whole

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


class Tail(enum.Enum):
    """Two-sided bounds on ``P(|‖f(z)‖²/‖z‖² − 1| > ε)``, roughly the sharpest first."""

    exact = "exact"  # χ²_m/m, Gaussian maps
    chernoff = "chernoff"  # exp(−m (±ε − ln(1 ± ε)) / 2), Gaussian maps
    cubic = "cubic"  # 2 exp(−m (ε²/4 − ε³/6)): Gaussian and ±1 (Dasgupta–Gupta, Achlioptas)
    bernstein = "bernstein"  # sub-gamma: exp(−m ε² / (4 (1 + ε))) + exp(−m ε² / 4)
    subgaussian = "subgaussian"  # 2 exp(−m ε² / 8)


def tail_bound(tail: Tail | str, dim_out: ArrayLike, epsilon: ArrayLike) -> Values:
    """The two-sided bound; it may exceed 1, which is vacuous.

    Source: S0 Theorem 27, proof, the two displayed tails (there with unnamed constants); Dasgupta
        and Gupta 2003; Achlioptas 2003, Lemma 5.1; Laurent and Massart 2000, Lemma 1.
    """
    tail = choice("tail", Tail, tail)
    m, eps = np.asarray(dim_out, float), check_epsilon(epsilon)
    if tail is Tail.exact:
        return failure_probability(m, 1 - eps, 1 + eps)
    if tail is Tail.chernoff:
        upper = np.exp(-m * (eps - np.log1p(eps)) / 2)
        return np.asarray(upper + np.exp(-m * (-eps - np.log1p(-eps)) / 2))
    if tail is Tail.cubic:
        return np.asarray(2 * np.exp(-m * (eps**2 / 4 - eps**3 / 6)))
    if tail is Tail.bernstein:
        return np.asarray(np.exp(-m * eps**2 / (4 + 4 * eps)) + np.exp(-m * eps**2 / 4))
    return np.asarray(2 * np.exp(-m * eps**2 / 8))


def jl_dimension(
    n_points: int, epsilon: float, delta: float = 0.05, *, tail: Tail | str = Tail.cubic
) -> int:
    """Dimensions with which a random map keeps all squared distances, with probability 1 − δ.

    The smallest m with ``N (N − 1)/2 · bound(m, ε) ≤ δ``: with probability at least 1 − δ no pair
    is distorted by more than ε. Other statements need other numbers: that such a map exists,
    `dasgupta_gupta_dim`; what Theorem 27's proof takes, `proof_constant`.

    Args:
        n_points: N, at least 2.
        epsilon: ε in (0, 1).
        delta: Failure probability in (0, 1).
        tail: The bound for one pair; a `Tail` or its name. ``cubic`` is for Gaussian maps and for
            those of random signs, ``exact`` smaller and for Gaussian maps alone.

    Raises:
        ValueError: If an argument is outside its range.
    """
    n_pairs = _pairs(n_points)
    check_epsilon(epsilon)
    check_range("delta", delta, "(0, 1)")
    for name, number in (("epsilon", epsilon), ("delta", delta)):
        if np.ndim(number):
            raise ValueError(f"{name} has shape {np.shape(number)}, must be one number")

    def fails(m: int) -> bool:
        return bool(n_pairs * tail_bound(tail, m, epsilon) > delta)

    high = 1
    while fails(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def jl_epsilon(
    n_points: int, dim_out: int, delta: float = 0.05, *, tail: Tail | str = Tail.cubic
) -> float:
    """The smallest ε that the union bound guarantees at m: the inverse of `jl_dimension`."""
    n_pairs = _pairs(n_points)
    check_range("delta", delta, "(0, 1)")
    grid = np.linspace(0, 1, 4097)[1:-1]
    enough = n_pairs * tail_bound(tail, dim_out, grid) <= delta
    return float(grid[enough.argmax()]) if enough.any() else math.nan


def dasgupta_gupta_dim(n_points: int, epsilon: float) -> float:
    """``4 ln N / (ε²/2 − ε³/3)``: a map exists, and a random one succeeds with probability ≥ 1/N.

    Source: Dasgupta and Gupta 2003, Theorem 2.1.
    """
    _pairs(n_points)
    check_epsilon(epsilon)
    return 4 * math.log(n_points) / (epsilon**2 / 2 - epsilon**3 / 3)


def statement_constant(epsilon: float) -> float:
    """C in ``m ≥ C ln N / ε²`` for Theorem 27's statement with entries ±1/√m, made explicit.

    The cubic tail with β = ε and ``N(N−1)/2 · 2 e^{−…} < N² e^{−…} ≤ 1`` give
    ``C = 2 / (1/4 − ε/6)``: 8 for small ε, at most 24. It says that a map exists, as
    `dasgupta_gupta_dim` does with the same number; `jl_dimension` says how likely one is good.
    """
    check_epsilon(epsilon)
    return 2 / (1 / 4 - epsilon / 6)


def proof_constant(epsilon: float) -> float:
    """C in ``m ≥ C ln N / ε²`` that Theorem 27's own proof gives, whose constants are unnamed.

    The proof takes β = ε/2, so its ``e^{−c β² m}`` has ``c = 1/4 − ε/12`` (cubic tail) and
    ``C = 8 / c``: 32 for small ε, at most 48. Halving β costs four times the dimensions. It is a
    constant of that proof, whose map and bounds are others (E8), and no advice: see `jl_dimension`.

    Source: S0 Theorem 27, proof, with c from Achlioptas 2003.
    """
    check_epsilon(epsilon)
    return 8 / (1 / 4 - epsilon / 12)


def check_epsilon(epsilon: ArrayLike) -> Values:
    """ε as an array."""
    check_range("epsilon", epsilon, "(0, 1)")
    return np.asarray(epsilon, float)


def _pairs(n_points: int) -> float:
    n_points = whole("n_points", n_points, 2)
    return n_points * (n_points - 1) / 2


class Threshold(NamedTuple):
    """Smallest m with success probability at least 1 − δ, and its binomial interval."""

    dim: float  # NaN where no m of the table suffices
    low: float  # smallest m not excluded
    high: float  # smallest m proven; NaN where none is


def succeeds(
    low: Float[np.ndarray, "*sizes n_maps n_dims"],
    high: Float[np.ndarray, "*sizes n_maps n_dims"],
    epsilon: float,
) -> Bool[np.ndarray, "*sizes n_maps n_dims"]:
    """Whether all pairs of a map lie within ``1 ± ε``, from `by_dimension.Extremes`."""
    check_epsilon(epsilon)
    return np.asarray((low >= -epsilon) & (high <= epsilon))


def smallest_dim(
    success: Bool[np.ndarray, "n_maps n_dims"],
    dims: Int[np.ndarray, " n_dims"],
    delta: float,
    level: float = 0.95,
) -> Threshold:
    """The smallest m from which the success rate stays at or above ``1 − δ``, with its interval."""
    n_maps = success.shape[0]
    k = success.sum(0)
    sure_low, sure_high = np.transpose([_interval(int(count), n_maps, level) for count in k])
    ends = (first_dim(rate, dims, delta) for rate in (k / n_maps, sure_high, sure_low))
    return Threshold(*map(float, ends))


@cache
def _interval(successes: int, n: int, level: float) -> tuple[float, float]:
    found = stats.binomtest(successes, n).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def first_dim(
    rate: Float[np.ndarray, "*cells n_dims"], dims: Int[np.ndarray, " n_dims"], delta: float
) -> Float[np.ndarray, "*cells"]:
    """The smallest m from which a rate stays at or above ``1 − δ``; NaN if there is none."""
    enough = np.flip(np.minimum.accumulate(np.flip(rate >= 1 - delta, -1), -1), -1)
    return np.asarray(np.where(enough.any(-1), np.asarray(dims, float)[enough.argmax(-1)], np.nan))
