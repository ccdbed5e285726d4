"""Cross-validated choices: made on some replicates, judged on others."""

import numpy as np
import xarray as xr


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
