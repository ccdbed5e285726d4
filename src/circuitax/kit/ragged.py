"""Arrays of unequal length on one axis, stacked into one array for labelled records."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def padded(array: ArrayLike, length: int, axis: int = -1, fill: Any = None) -> np.ndarray:
    """The array padded with ``fill`` to ``length`` entries on one axis.

    Args:
        array: Any array.
        length: Entries on that axis afterwards, at least as many as it has.
        axis: The axis.
        fill: What is added; None for NaN, or for False in an array of booleans.

    Raises:
        ValueError: If the array is longer already, or holds integers and ``fill`` is None.
    """
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
    """Arrays stacked on a new first axis, the shorter ones padded at the end.

    Args:
        arrays: One or more, of equal shapes but for ``axis``.
        axis: The axis on which their lengths may differ, counted in one array (not in the result);
            None if all shapes must be equal.
        fill: What is added; None for NaN, or for False in arrays of booleans.
        dtype: Type of the result; None for that of the arrays.

    Raises:
        ValueError: If there is no array, another axis differs, or integers need a ``fill``.
    """
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
    """`stack_ragged` of one named array of every arm, width or depth of an experiment.

    Args:
        cells: What was found in each, by name.
        name: The array wanted.
        axis: As in `stack_ragged`.
        fill: As in `stack_ragged`.
        dtype: As in `stack_ragged`.
    """
    return stack_ragged([cell[name] for cell in cells], axis, fill=fill, dtype=dtype)


def _fill(values: np.ndarray, fill: Any) -> Any:
    if fill is not None:
        return fill
    if values.dtype.kind in "fc":
        return np.nan
    if values.dtype.kind == "b":
        return False
    raise ValueError(f"fill=None must be a value: {values.dtype} has no NaN")
