"""Any number that depends on independent units, with the interval of a bootstrap over them."""

from collections.abc import Callable

import numpy as np

from circuitax.records.estimate import Estimate


def resampled_estimate(
    statistic: Callable[..., float],
    *sizes: int,
    n: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    n_resamples: int = 999,
) -> Estimate:
    """A statistic of independent units with its percentile interval over resampled units.

    The units of each group are drawn with replacement, each group by itself, and the statistic is
    taken of what was drawn; the interval lies between its ``(1 ± level) / 2`` quantiles, and always
    holds the value itself. A best of ten networks is such a statistic: resampling the ten says how
    much depends on which ten were trained.

    Args:
        statistic: Function of one array of unit numbers for each group, of its size.
        sizes: Units of each group, each at least 2.
        n: Independent replicates to report; all units of all groups when None.
        level: Coverage of the interval, in (0, 1).
        seed: Seed of the resampling, so that the same units give the same interval.
        n_resamples: Resamples drawn, at least 100.

    Raises:
        ValueError: If there is no group, a group has fewer than 2 units, ``level`` is not in
            (0, 1), or ``n_resamples`` is less than 100.
    """
    if not sizes or min(sizes) < 2:
        raise ValueError(f"sizes={sizes} must name groups of 2 units or more")
    if not 0 < level < 1:
        raise ValueError(f"level={level} must be in (0, 1)")
    if n_resamples < 100:
        raise ValueError(f"n_resamples={n_resamples} must be at least 100")
    rng = np.random.default_rng(seed)
    value = float(statistic(*(np.arange(size) for size in sizes)))
    draws = [
        float(statistic(*(rng.integers(size, size=size) for size in sizes)))
        for _ in range(n_resamples)
    ]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    low, high = min(float(low), value), max(float(high), value)
    count = sum(sizes) if n is None else n
    return Estimate(value, low, high, count, f"bootstrap over units {level:.0%}")
