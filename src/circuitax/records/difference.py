"""Difference and ratio of the means of two groups."""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.records.estimate import Estimate, mean_estimate


def difference_estimate(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Estimate:
    """``mean(first) - mean(second)`` of two independent groups, with Welch's interval.

    ``± t_{ν, (1+level)/2} sqrt(s₁²/n₁ + s₂²/n₂)``, ν by Welch and Satterthwaite; the groups may
    differ in size and in variance. For paired samples take `mean_estimate` of the differences.

    Args:
        first: One number for each independent replicate.
        second: Likewise; replicates share nothing with those of ``first``.
        level: Coverage of the interval, in (0, 1).

    Returns:
        The estimate; its ``n`` is the size of the smaller group.

    Raises:
        ValueError: As `mean_estimate`, for either group.
    """
    a, b = mean_estimate(first, level), mean_estimate(second, level)
    value, n = a.value - b.value, min(a.n, b.n)
    method = f"difference of means, Welch interval {level:.0%}"
    if n == 1:
        return Estimate(value, -np.inf, np.inf, n, method)
    errors = [float(np.var(np.asarray(x, float), ddof=1)) / np.size(x) for x in (first, second)]
    if sum(errors) == 0:
        return Estimate(value, value, value, n, method)
    from scipy import stats  # costs over a second: only when it is needed

    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (a.n - 1) + errors[1] ** 2 / (b.n - 1))
    half = float(stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(sum(errors)))
    return Estimate(value, value - half, value + half, n, method)


def ratio_estimate(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Estimate:
    """``mean(first) / mean(second)`` of two independent groups, with the noise of both.

    The logarithm of the ratio has the standard error ``sqrt(s₁²/(n₁ m₁²) + s₂²/(n₂ m₂²))``, and
    Welch's degrees of freedom.

    Args:
        first: One positive number for each independent replicate.
        second: Likewise; replicates share nothing with those of ``first``.
        level: Coverage of the interval, in (0, 1).

    Returns:
        The estimate; its ``n`` is the size of the smaller group.

    Raises:
        ValueError: As `mean_estimate`, for either group, or if a mean is not positive.
    """
    means = [mean_estimate(group, level).value for group in (first, second)]
    if min(means) <= 0:
        raise ValueError(f"means {means} must be positive, their ratio has a logarithm")
    above, below = (
        np.asarray(x, float).ravel() / m for x, m in zip((first, second), means, strict=True)
    )
    found = difference_estimate(above, below, level)
    ratio = means[0] / means[1]
    low, high = (float(ratio * np.exp(end)) for end in (found.low, found.high))
    return Estimate(ratio, low, high, found.n, f"ratio of means, Welch interval {level:.0%}")
