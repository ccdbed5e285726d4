"""Phase of a feature, by its norm and interference, in NumPy, for records."""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike


class Phase(StrEnum):
    """Phase of a feature: ignored, superposed, or with a dimension of its own."""

    ignored = "ignored"
    superposed = "superposed"
    dedicated = "dedicated"


def phases(
    norm: ArrayLike,
    interference: ArrayLike,
    *,
    represented: float | int = 0.5,
    shared: float | int = 0.5,
) -> np.ndarray:
    """A `Phase` for every feature, from two numbers each.

    Source: toy-models paper, "Superposition as a Phase Change".
    Differs: the paper colours continuously; the thresholds are ours.
    """
    for name, threshold in (("represented", represented), ("shared", shared)):
        if not 0 < threshold < np.inf:
            raise ValueError(f"{name}={threshold} must be above 0 and finite")
    kept = np.where(np.asarray(interference) >= shared, Phase.superposed, Phase.dedicated)
    return np.where(np.asarray(norm) < represented, Phase.ignored, kept)
