"""Boxes of Gram matrices of three features in two dimensions: feasibility and classes.

A box is a range for each of ``a_1, a_2, a_3, k_12, k_13, k_23``, the squared norms and the products
of the features' directions. Rotations of the hidden space change none of them.
"""

from enum import IntEnum

import numpy as np
from jaxtyping import Bool, Float

from circuitax.kernel.checks import check_range
from circuitax.superposition.proofs.intervals import Interval

# Where a coupling stands, and the two features it couples.
PAIRS = ((3, 0, 1), (4, 0, 2), (5, 1, 2))
# Far above what rounding does to sums of products of numbers below 1e2.
SLACK = 1e-9
# Of larger ones rounding is a share: of a product, and of a determinant at a rounded centre.
ROUNDED, TERMS_ROUNDED = 2.0**-50, 2.0**-46
# The thresholds of `phases`, the first one squared.
REPRESENTED_SQ, SHARED = 0.25, 0.5

Ends = Float[np.ndarray, "box 6"]


class TripleClass(IntEnum):
    """Phase of the last of three features, in the order of `triple_classes`."""

    ignored = 0
    """``|w_3| < 1/2``."""
    dedicated = 1
    """``|w_3| >= 1/2`` and interference ``(k_13^2 + k_23^2) / a_3 < 1/2``."""
    superposed = 2
    """``|w_3| >= 1/2`` and more interference."""


def feasible(low: Ends, high: Ends) -> Bool[np.ndarray, " box"]:
    """Whether a box may hold a positive semidefinite matrix of rank two with ``a_1 >= a_2``.

    Features 1 and 2 have equal importances, so that exchanging them changes no loss. A box without
    ``k_ij^2 <= a_i a_j`` or without a determinant of 0 holds none; that of the centre must then be
    within reach of the gradient.
    """
    for name, ends in (("low", low), ("high", high)):
        check_range(name, ends, "[-1e50, 1e50]")
    possible = high[:, 0] >= low[:, 1]
    for at, i, j in PAIRS:
        product = high[:, i] * high[:, j]
        least = _squares(low[:, at], high[:, at])[0] * (1 - ROUNDED)
        possible &= least <= product + np.abs(product) * ROUNDED + SLACK
    a, b, c, k, m, n = (Interval(low[:, i], high[:, i]) for i in range(6))
    gradient = [
        b * c - n * n,
        a * c - m * m,
        a * b - k * k,
        2 * (m * n - c * k),
        2 * (k * n - b * m),
        2 * (k * m - a * n),
    ]
    half = (high - low) / 2
    steepest = [np.maximum(np.abs(part.low), np.abs(part.high)) for part in gradient]
    reach = np.sum([size * half[:, i] for i, size in enumerate(steepest)], axis=0)
    centre = (low + high) / 2
    terms = _terms(*centre.T)
    sizes = _terms(*np.maximum(np.abs(low), np.abs(high)).T)
    missed = TERMS_ROUNDED * np.sum(np.abs(sizes), axis=0)
    determinant = sum(terms)
    return np.asarray(possible & (np.abs(determinant) <= reach * (1 + ROUNDED) + missed + SLACK))


def _terms(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, k: np.ndarray, m: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Terms of the determinant."""
    return a * b * c, 2 * k * m * n, -a * n * n, -b * m * m, -c * k * k


def triple_classes(low: Ends, high: Ends) -> Bool[np.ndarray, "box 3"]:
    """Mask of each `TripleClass` possible in each box; rounding may add one, and loses none."""
    with_1, with_2 = (_squares(low[:, k], high[:, k]) for k in (4, 5))
    least = (with_1[0] + with_2[0]) * (1 - ROUNDED)
    most = (with_1[1] + with_2[1]) * (1 + ROUNDED)
    kept = high[:, 2] >= REPRESENTED_SQ
    return np.stack(
        [
            low[:, 2] < REPRESENTED_SQ,
            kept & (least < SHARED * high[:, 2] + SLACK),
            kept & (most > SHARED * low[:, 2] - SLACK),
        ],
        axis=-1,
    )


def _squares(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest square in each interval."""
    least, most = np.minimum(low**2, high**2), np.maximum(low**2, high**2)
    return np.where((low < 0) & (high > 0), 0.0, least), most
