"""Transitions of the lowest of several branches, in NumPy, for records without JAX."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Transition(NamedTuple):
    """One place at which the lowest branch gives way to another one."""

    at: float
    before: str
    after: str


def transitions(x: ArrayLike, losses: Mapping[str, ArrayLike]) -> list[Transition]:
    """Every change of the lowest branch along x, at the crossing of the two branches that change.

    The crossing is found by linear interpolation between two neighbouring x: give a logarithm of
    the loss or of x where branches are closer to straight. Where branches tie, the one named first
    counts as the lowest.

    Args:
        x: Increasing numbers.
        losses: One number for each x by name of the branch; infinite where a branch does not exist.

    Raises:
        ValueError: If x does not increase, a branch has another length or holds NaN, or no branch
            is finite at some x.
    """
    places = np.asarray(x, np.float64)
    if not (np.diff(places) > 0).all():
        raise ValueError(f"x={places} must increase")
    names = list(losses)
    table = np.array([np.asarray(losses[name], np.float64) for name in names])
    if table.shape != (len(names), places.size) or np.isnan(table).any():
        raise ValueError(
            f"losses has shape {table.shape}, must have one number that is not NaN for each of "
            f"{places.size} x"
        )
    if not np.isfinite(table.min(axis=0)).all():
        raise ValueError(f"losses has no finite branch at x={places[np.isinf(table.min(axis=0))]}")
    lowest = table.argmin(axis=0)
    found = []
    for i in np.flatnonzero(np.diff(lowest)):
        before, after = lowest[i], lowest[i + 1]
        gap = table[after, i : i + 2] - table[before, i : i + 2]  # from above 0 to below
        # A branch that begins or ends between two x has no crossing: the middle stands for it.
        share = gap[0] / (gap[0] - gap[1]) if np.isfinite(gap).all() else 0.5
        at = float(places[i] + share * (places[i + 1] - places[i]))
        found.append(Transition(at, names[before], names[after]))
    return found
