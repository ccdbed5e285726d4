"""Transitions of the lowest of several branches, in NumPy, for records without JAX."""

import numpy as np


def transitions(x: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Where the lowest of some branches, ``losses [branch, x]``, changes along increasing x.

    A place is the crossing of the two branches that change, by linear interpolation between two
    neighbouring x: give a logarithm of the loss or of x where branches are closer to straight. A
    loss is infinite where a branch does not exist. Where branches tie, the first is the lowest.
    """
    lowest, found = losses.argmin(axis=0), []
    for i in np.flatnonzero(np.diff(lowest)):
        gap = losses[lowest[i + 1], i : i + 2] - losses[lowest[i], i : i + 2]  # to below 0
        # A branch that begins or ends between two x has no crossing: the middle stands for it.
        share = gap[0] / (gap[0] - gap[1]) if np.isfinite(gap).all() else 0.5
        found.append(x[i] + share * (x[i + 1] - x[i]))
    return np.array(found)
