"""Any number that depends on independent units, with the interval of a bootstrap over them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range
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
        statistic: Function of one array of unit numbers for each group, of its size; nan where
            what was drawn has no such number, which leaves that resample out.
        sizes: Units of each group, each at least 1; with a group of one there is no interval, and
            its ends are infinite.
        n: Independent replicates to report; all units of all groups when None.
        level: Coverage of the interval, in (0, 1).
        seed: Seed of the resampling, so that the same units give the same interval.
        n_resamples: Resamples drawn, at least 100.

    Raises:
        ValueError: If there is no group, a group has no unit, ``level`` is not in (0, 1), or
            ``n_resamples`` is less than 100.
    """
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes={sizes} must name groups of 1 unit or more")
    check_range("level", level, "(0, 1)")
    check_range("n_resamples", n_resamples, "[100, inf)")
    rng = np.random.default_rng(seed)
    value = float(statistic(*(np.arange(size) for size in sizes)))
    count = sum(sizes) if n is None else n
    method = f"bootstrap over units {level:.0%}"
    if min(sizes) == 1:
        return Estimate(value, -np.inf, np.inf, count, method)
    drawn = [
        float(statistic(*(rng.integers(size, size=size) for size in sizes)))
        for _ in range(n_resamples)
    ]
    draws = [number for number in drawn if not np.isnan(number)] or [np.nan]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    low, high = min(float(low), value), max(float(high), value)
    return Estimate(value, low, high, count, method)


def best_estimate(
    losses: ArrayLike, values: ArrayLike, over: Callable[[np.ndarray], float] = np.mean
) -> Estimate:
    """The value of the replicate with the least loss, and its spread over sets of replicates.

    With several cells, each has a best replicate of its own, and replicates are drawn for all cells
    together: those of one number share their data. A replicate that diverged is never the best, and
    does not count: n is that of the cell in which the fewest have a finite loss. With one of them
    there is no interval, and its ends are infinite; with none there is no best, and the value is
    nan.

    Args:
        losses: ``[replicate, *cells]``; resamples without a finite one in a cell are left out.
        values: A number of each replicate in each cell, of the same shape.
        over: Function of the numbers of the best in all cells, nan where one of them is.

    Raises:
        ValueError: If the shapes differ or there is no replicate.

    Source: toy-models paper, which looks at the model of the lowest loss of several restarts.
    """
    loss, numbers = np.asarray(losses, float), np.asarray(values, float)
    if loss.shape != numbers.shape or not loss.size:
        raise ValueError(f"values has shape {numbers.shape}, must have that of losses {loss.shape}")
    finite = np.isfinite(loss)
    loss, fewest = np.where(finite, loss, np.inf), int(finite.sum(axis=0).min())
    if not fewest:
        bare = int((~finite).all(axis=0).sum())
        method = f"no best: no finite loss in {bare} of {loss[0].size} cells"
        return Estimate(np.nan, -np.inf, np.inf, 0, method)

    cells = loss.shape[1:]
    loss, numbers = (x.reshape(len(x), -1) for x in (loss, numbers))
    diverged, column = not finite.all(), np.arange(loss.shape[1])

    def of(chosen: np.ndarray) -> float:
        drawn = loss[chosen]
        if diverged and np.isinf(drawn).all(axis=0).any():
            return np.nan
        best = chosen[drawn.argmin(axis=0)]
        return float(over(numbers[best, column].reshape(cells)))

    found = resampled_estimate(of, len(loss), n=fewest)
    return found if fewest > 1 else found._replace(low=-np.inf, high=np.inf)
