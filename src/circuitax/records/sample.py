"""What a reading takes from a record: a number of independent units, its interval on demand.

What is chosen is chosen on other units than it is judged on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import SupportsFloat, SupportsInt

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from circuitax.records.estimate import (
    Estimate,
    best_estimate,
    difference_estimate,
    exact,
    geometric_estimate,
    mean_estimate,
    mean_of_finite,
    resampled_estimate,
    share_estimate,
)


class Absent(Exception):
    """The precondition of a reading is not met: no head formed, no seed reached the optimum."""


class NotRun(Exception):
    """What the reading needs is not at hand: other settings, no weights, other texts."""


@dataclass(frozen=True)
class Sample:
    """A statistic of independent units; the interval is made only where it is asked for.

    A control takes the same reading of many altered records and needs their values alone, while a
    bootstrap costs a thousand times the value.

    Attributes:
        value: The statistic.
        estimate: Makes the estimate, with the interval and the number of units.
    """

    value: float
    estimate: Callable[[], Estimate] = field(compare=False)


def sample(estimate: Estimate) -> Sample:
    """An estimate that is there already, such as the interval of a fit."""
    return Sample(estimate.value, lambda: estimate)


def exactly(value: SupportsFloat, n: SupportsInt = 1) -> Sample:
    """A computed number without sampling noise."""
    return Sample(float(value), partial(exact, value, n))


def mean_of(values: ArrayLike, *, bounds: tuple[float | int, float | int] | None = None) -> Sample:
    """The mean of independent units; see `circuitax.records.estimate.mean_estimate`."""
    return Sample(
        float(np.mean(np.asarray(values, float))), partial(mean_estimate, values, bounds=bounds)
    )


def mean_of_those_finite(
    values: ArrayLike, *, bounds: tuple[float | int, float | int] | None = None
) -> Sample:
    """The mean of the units that have a number; ``Absent`` if none has."""
    numbers = np.asarray(values, float)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        raise Absent("no unit has this number")
    return Sample(float(finite.mean()), partial(mean_of_finite, finite, bounds=bounds))


def geometric_mean_of(logs: ArrayLike) -> Sample:
    """``exp(mean(log x))``; takes the logarithms."""
    return Sample(
        float(np.exp(np.mean(np.asarray(logs, float)))), partial(geometric_estimate, logs)
    )


def share_of(yes: ArrayLike) -> Sample:
    """The share of units with a property."""
    return Sample(float(np.mean(np.asarray(yes, bool))), partial(share_estimate, yes))


def difference_of(first: ArrayLike, second: ArrayLike) -> Sample:
    """Mean of the first units less that of the second, which are independent of them."""
    value = float(np.mean(np.asarray(first, float)) - np.mean(np.asarray(second, float)))
    return Sample(value, partial(difference_estimate, first, second))


def resampled(statistic: Callable[..., float], *sizes: int, n: int | None = None) -> Sample:
    """Any statistic of unit numbers, bootstrapped over units; see `resampled_estimate`."""
    value = float(statistic(*(np.arange(size) for size in sizes)))
    return Sample(value, partial(resampled_estimate, statistic, *sizes, n=n))


def best_of(
    losses: ArrayLike, values: ArrayLike, over: Callable[[np.ndarray], float] = np.mean
) -> Sample:
    """The number of the unit with the least loss, bootstrapped; see `best_estimate`."""
    loss, numbers = np.asarray(losses, float), np.asarray(values, float)
    loss = np.where(np.isfinite(loss), loss, np.inf)
    if np.isinf(loss.min(axis=0)).any():
        raise Absent("no unit has a finite loss")
    best = np.take_along_axis(numbers, loss.argmin(axis=0)[None], axis=0)[0]
    return Sample(float(over(best)), partial(best_estimate, losses, values, over))


def crossfit_choice(
    scores: xr.DataArray, axis: str, unit: str = "seed", folds: int = 2
) -> xr.DataArray:
    """The place along an axis with the highest mean score of other units, for each unit.

    The best of several on the data that it was chosen on looks better than it is: of k places that
    are alike, the highest mean of n units lies up to ``σ √(2 ln k / n)`` above them. Here unit i
    takes ``argmax_a mean_j s_ja`` over units j of another fold, ``j % folds != i % folds``, so that
    its own score at that place is free of the choice. With two folds, units of even number take the
    place of the odd ones, and the other way round; with as many folds as units each is left out
    alone. A unit that is alone has no other, and takes its own.

    Args:
        scores: ``[unit, axis, ...]`` in any order; numbers that are nan are left out of means.
        axis: Name of the axis along which is chosen. Negate scores where the lowest is wanted.
        unit: Name of the axis of independent replicates, at least one.
        folds: Parts that the units are dealt into, at least 2.

    Returns:
        Numbers of places, ``[unit, ...]``, for ``isel``.

    Raises:
        ValueError: If the scores lack ``axis`` or ``unit``, have no unit, or ``folds`` is below 2.
    """
    if not {axis, unit} <= set(scores.dims):
        raise ValueError(f"scores has axes {scores.dims}, must have axis={axis!r}, unit={unit!r}")
    n = scores.sizes[unit]
    if n < 1 or folds < 2:
        raise ValueError(f"{n} units in folds={folds} must be 1 and 2 at least")
    fold = np.arange(n) % folds
    others = [np.flatnonzero(fold != k) for k in range(min(folds, n))] if n > 1 else [[0]]
    found = [scores.isel({unit: chosen}).mean(unit).argmax(axis) for chosen in others]
    return xr.concat(found, "fold").isel(fold=xr.DataArray(fold, dims=unit))


def crossfit_best(
    scores: xr.DataArray, axis: str, unit: str = "seed", folds: int = 2
) -> xr.DataArray:
    """The score of each unit at the place that is best in other units, by `crossfit_choice`.

    Where all places are alike its mean over units is theirs, whatever their number.

    Args:
        scores: As in `crossfit_choice`, as are the others.
        axis: Name of the axis along which is chosen; it is left out of what is returned.
        unit: Name of the axis of independent replicates.
        folds: Parts that the units are dealt into.
    """
    return scores.isel({axis: crossfit_choice(scores, axis, unit, folds)})
