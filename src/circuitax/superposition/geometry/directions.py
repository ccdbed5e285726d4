"""Directions of features in two dimensions, in NumPy, for records without JAX."""

import numpy as np
from numpy.typing import ArrayLike


def angles(W: ArrayLike) -> np.ndarray:
    """The direction of every feature, in degrees from 0 to 360."""
    directions = np.asarray(W, np.float64)
    if directions.shape[0] != 2:
        raise ValueError(f"W has n_hidden={len(directions)} rows, must have 2 to have directions")
    first, second = directions
    return np.degrees(np.arctan2(second, first)) % 360


def gaps(W: ArrayLike) -> np.ndarray:
    """Angles between neighbouring directions around the circle, in degrees; they sum to 360."""
    ordered = np.sort(angles(W))
    return np.diff(ordered, append=ordered[0] + 360)
