"""Classes of pairs of weights in one dimension, and the classes present in a box of weights."""

from enum import IntEnum

import numpy as np
from jaxtyping import Bool

from circuitax.superposition.proofs.pair_bounds import Plane, squares

# The thresholds of `phases`, squared where they are norms.
REPRESENTED_SQ, SHARED = 0.25, 0.5


class PairClass(IntEnum):
    """Phase of the last of two features, in the order of `pair_classes`."""

    ignored = 0
    """``|w_2| < 1/2``."""
    dedicated = 1
    """``|w_2| >= 1/2`` and ``w_1^2 < 1/2``."""
    antipodal = 2
    """Superposed: ``|w_2| >= 1/2``, ``w_1^2 >= 1/2``, and the signs differ."""
    aligned = 3
    """The same with equal signs."""


def pair_classes(plane: Plane) -> Bool[np.ndarray, "box 4"]:
    """Mask of each `PairClass` with a member in each box; rounding may add one, and loses none."""
    first, second = squares(plane)
    _, _, below, above = plane.ends()
    kept = second.high >= REPRESENTED_SQ
    shared = kept & (first.high >= SHARED)
    return np.stack(
        [
            second.low < REPRESENTED_SQ,
            kept & (first.low < SHARED),
            shared & (below < 0),
            shared & (above > 0),
        ],
        axis=-1,
    )


def lopsided(plane: Plane, least: float) -> Bool[np.ndarray, "box 2"]:
    """Whether a box has members with ``|w_1^2 - w_2^2| / 2`` up to ``least``, and above it."""
    low, high, _, _ = plane.ends()
    nearest = np.where((low < 0) & (high > 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return np.stack([nearest <= least, np.maximum(np.abs(low), np.abs(high)) >= least], axis=-1)
