"""Arrays of unequal length on one axis, stacked into one array for labelled records."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def padded(array: ArrayLike, length: int, axis: int = -1, fill: Any = None) -> np.ndarray:
    """The array padded with ``fill`` to ``length`` entries on one axis."""
    values = np.asarray(array)
    short = length - values.shape[axis]
    if short < 0:
        raise ValueError(f"length={length} must be at least {values.shape[axis]}, the present one")
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, short)
    return np.pad(values, widths, constant_values=_fill(values, fill))


def stack_ragged(
    arrays: Iterable[ArrayLike],
    axis: int | None = None,
    *,
    fill: Any = None,
    dtype: DTypeLike | None = None,
) -> np.ndarray:
    """Arrays stacked on a new first axis, the shorter ones padded at the end."""
    found = [np.asarray(array, dtype) for array in arrays]
    if not found:
        raise ValueError("arrays is empty, it must hold at least one")
    if axis is None:
        return np.stack(found)
    longest = max(array.shape[axis] for array in found)
    if all(array.shape[axis] == longest for array in found):
        return np.stack(found)
    return np.stack([padded(array, longest, axis, fill) for array in found])


def stack_named(
    cells: Iterable[Mapping[str, ArrayLike]],
    name: str,
    axis: int | None = None,
    *,
    fill: Any = None,
    dtype: DTypeLike | None = None,
) -> np.ndarray:
    """`stack_ragged` of one named array of every arm, width or depth of an experiment."""
    return stack_ragged([cell[name] for cell in cells], axis, fill=fill, dtype=dtype)


def _fill(values: np.ndarray, fill: Any) -> Any:
    if fill is not None:
        return fill
    if values.dtype.kind in "fc":
        return np.nan
    if values.dtype.kind == "b":
        return False
    raise ValueError(f"fill=None must be a value: {values.dtype} has no NaN")
