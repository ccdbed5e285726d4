"""Receiver operating characteristic of a score that separates two groups, and its area."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Roc(NamedTuple):
    """Rates of alarms as the threshold falls, from (0, 0) to (1, 1)."""

    false_alarms: np.ndarray
    hits: np.ndarray


def roc_curve(positive: ArrayLike, scores: ArrayLike) -> Roc:
    """Share of negatives and of positives whose score is at least each threshold.

    Args:
        positive: Which cases belong to the group, of any shape; at least one does, and one not.
        scores: A finite score of each, of the same shape; equal scores are passed at once.

    Raises:
        ValueError: If the shapes differ, a group is empty, or a score is not finite.
    """
    truth, values = np.asarray(positive, bool).ravel(), np.asarray(scores, float).ravel()
    if truth.shape != values.shape:
        raise ValueError(f"scores has {values.size} entries, must have {truth.size}, as positive")
    if truth.all() or not truth.any():
        raise ValueError(
            f"positive has {truth.sum()} of {truth.size} cases, must have some of both"
        )
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    order = np.argsort(-values, kind="stable")
    # A threshold lies between two different scores only.
    ends = np.append(np.flatnonzero(np.diff(values[order])), values.size - 1)
    hits, alarms = np.cumsum(truth[order])[ends], np.cumsum(~truth[order])[ends]
    return Roc(np.append(0, alarms / alarms[-1]), np.append(0, hits / hits[-1]))


def roc_area(positive: ArrayLike, scores: ArrayLike) -> float:
    """The area below `roc_curve`: how often a positive has the larger score, ties counted half.

    Args:
        positive: As in `roc_curve`.
        scores: As in `roc_curve`.

    Raises:
        ValueError: As in `roc_curve`.
    """
    curve = roc_curve(positive, scores)
    return float(np.trapezoid(curve.hits, curve.false_alarms))
