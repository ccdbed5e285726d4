"""Alignment of solutions that differ by a rotation or by the order of features.

A toy model's loss does not change when W is rotated, and with equal features neither when they are
permuted. NumPy and SciPy are used, not JAX, so that records can be read with these functions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from circuitax.kernel.checks import check_range

ITERATIONS = 50


class Alignment(NamedTuple):
    """A solution aligned with a reference.

    Attributes:
        W: ``rotation @ W[:, order]``.
        rotation: Orthogonal ``[n_hidden, n_hidden]``; reflections are allowed.
        order: Which feature of the solution stands at each place of the reference.
        distance: ``|rotation @ W[:, order] - reference|`` (Frobenius).
    """

    W: np.ndarray
    rotation: np.ndarray
    order: np.ndarray
    distance: float


def align(
    W: ArrayLike,
    reference: ArrayLike,
    *,
    permute: bool = False,
    n_starts: int = 32,
    seed: int = 0,
) -> Alignment:
    """The rotation, and optionally the order of features, that align a solution with a reference.

    Without permutation this is the orthogonal Procrustes problem: ``R = U V^T`` of the singular
    vectors of ``reference W^T``, the exact minimum. With it, rotation and assignment (Hungarian
    method) are improved in turns from several random rotations, which finds a local minimum each:
    the best one is returned.

    Source: toy-models paper, "The Geometry of Superposition" (solutions rotated to align).
    """
    moved, goal = np.asarray(W, np.float64), np.asarray(reference, np.float64)
    if moved.shape != goal.shape or moved.ndim != 2:
        raise ValueError(f"W has shape {moved.shape}, must have that of reference, {goal.shape}")
    check_range("W", moved, "(-inf, inf)")
    check_range("reference", goal, "(-inf, inf)")
    check_range("n_starts", n_starts, "[1, inf)")
    order = np.arange(moved.shape[1])
    if not permute:
        return _aligned(moved, goal, order)
    random = np.random.default_rng(seed)
    m = moved.shape[0]
    turns = [np.eye(m)]
    turns += [np.linalg.qr(random.normal(size=(m, m)))[0] for _ in range(n_starts - 1)]
    return min((_in_turns(moved, goal, turn) for turn in turns), key=lambda a: a.distance)


def _in_turns(W: np.ndarray, goal: np.ndarray, rotation: np.ndarray) -> Alignment:
    """Alternate between assignment and rotation until the order is stable."""
    order = None
    for _ in range(ITERATIONS):
        # |R W_j - g_i|^2 differs from -g_i . R W_j by terms that no assignment changes.
        _, new = linear_sum_assignment(-goal.T @ (rotation @ W))
        if order is not None and (new == order).all():
            break
        order = new
        rotation = _aligned(W, goal, order).rotation
    return _aligned(W, goal, np.arange(W.shape[1]) if order is None else order)


def _aligned(W: np.ndarray, goal: np.ndarray, order: np.ndarray) -> Alignment:
    left, _, right = np.linalg.svd(goal @ W[:, order].T)
    rotation = left @ right
    turned = rotation @ W[:, order]
    return Alignment(turned, rotation, order, float(np.linalg.norm(turned - goal)))
