"""Polytopes, phases and directions of features, and alignment of solutions, without JAX.

A toy model's loss does not change when W is rotated, and with equal features neither when they are
permuted. NumPy and SciPy are used, not JAX, so that records can be read with these functions.
"""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csgraph


def angles(W: ArrayLike) -> np.ndarray:
    """The direction of every feature, in degrees from 0 to 360."""
    directions = np.asarray(W, np.float64)
    first, second = directions
    return np.degrees(np.arctan2(second, first)) % 360


def gaps(W: ArrayLike) -> np.ndarray:
    """Angles between neighbouring directions around the circle, in degrees; they sum to 360."""
    ordered = np.sort(angles(W))
    return np.diff(ordered, append=ordered[0] + 360)


Component = tuple[int, ...]


def components(W: ArrayLike, *, edge: float = 0.1, least_norm: float = 0.1) -> list[Component]:
    """Connected sets of represented features: the factors of a tegum product.

    Nodes are features with ``|W_i| > least_norm``; an edge joins i and j where the cosine of their
    directions exceeds ``edge`` in magnitude. Factors of a tegum product are orthogonal.

    Source: toy-models paper, "The Geometry of Superposition" (feature graph).
    Differs: the paper weighs edges with ``|W_i . W_j|``; cosines make one threshold serve any norm.
    """
    W = np.asarray(W, np.float64)
    norm = np.linalg.norm(W, axis=0)
    nodes = np.flatnonzero(norm > least_norm)
    directions = W[:, nodes] / norm[nodes]
    joined = np.abs(directions.T @ directions) > edge
    n_components, label = csgraph.connected_components(joined, directed=False)
    found = [tuple(int(i) for i in nodes[label == k]) for k in range(n_components)]
    return sorted(found, key=lambda c: (-len(c), c))


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
    kept = np.where(np.asarray(interference) >= shared, Phase.superposed, Phase.dedicated)
    return np.where(np.asarray(norm) < represented, Phase.ignored, kept)


# (features, rank): the vertex-transitive arrangements that optima show. An edge joins features that
# are not orthogonal, so a cross-polytope falls apart into digons and never appears as a whole.
POLYTOPES = {
    (1, 1): "dedicated",
    (2, 1): "digon",
    (3, 2): "triangle",
    (4, 3): "tetrahedron",
    (5, 2): "pentagon",
    (6, 2): "hexagon",
    (7, 2): "heptagon",
    (8, 2): "octagon",
    (8, 3): "square antiprism",
    (5, 4): "4-simplex",
    (6, 5): "5-simplex",
}
# Rank counts singular values above this share of the largest.
RANK_SHARE = 0.1


def polytopes(
    W: ArrayLike, *, edge: float = 0.1, least_norm: float = 0.1, spread: float = 0.1
) -> list[tuple[str, Component]]:
    """Each component of the feature graph with its polytope's name.

    Source: toy-models paper, "The Geometry of Superposition": tetrahedron 3/4, triangle 2/3, digon
        1/2, pentagon 2/5, square antiprism 3/8.
    """
    W = np.asarray(W, np.float64)
    return [
        (_name(W[:, list(part)], spread), part)
        for part in components(W, edge=edge, least_norm=least_norm)
    ]


def solution_class(W: ArrayLike, **thresholds: float) -> str:
    """One line for a whole solution, largest polytopes first: ``"pentagon"``, ``"2 digon"``."""
    counts = Counter(name for name, _ in polytopes(W, **thresholds))
    names = [name if count == 1 else f"{count} {name}" for name, count in counts.items()]
    return " + ".join(names) or "nothing"


def phase(W: ArrayLike, feature: int = -1, **thresholds: float) -> Phase:
    """Whether a feature is ignored, superposed with others, or has a dimension of its own."""
    W = np.asarray(W, np.float64)
    norm_sq = W[:, feature] @ W[:, feature]
    driven = np.sum((W.T @ W[:, feature]) ** 2) / (norm_sq or 1.0)
    return Phase(phases(norm_sq**0.5, driven - norm_sq, **thresholds).item())


def _name(part: np.ndarray, spread: float) -> str:
    k = part.shape[1]
    singular = np.linalg.svd(part, compute_uv=False)
    rank = int(np.sum(singular > RANK_SHARE * singular[0]))
    norms_sq = np.sum(part**2, axis=0)
    dimensionality = norms_sq**2 / np.sum((part.T @ part) ** 2, axis=1)
    regular = bool(np.all(np.abs(dimensionality - rank / k) <= spread))
    if (k, rank) == (2, 1):
        regular = regular and float(part[:, 0] @ part[:, 1]) < 0
    return POLYTOPES.get((k, rank), f"{k} in {rank}") if regular else f"{k} in {rank}"


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


def ignoring_limit(density: ArrayLike) -> np.ndarray:
    """The importance ``m/v`` above which an antipodal last feature of small norm lowers the loss.

    At ``W = (1, -kappa)``, ``b = (kappa beta, p/2)`` with small ``kappa > 0`` the second output's
    error is ``v (1 - kappa^2)``, ``v = p/3 - p^2/4``, and the first one's ``kappa^2 m``, where

        m = min over beta in [0, 1] of
            (q^2 + p/4) beta^2 + (p q/3) beta^3 - (p^2/4) beta + p^2/3 - 3 p^3/16

    after the best change of ``w_1``, both up to higher orders. So the feature is ignored as long as
    ``r v < m``.

    Source: second order expansion of the exact loss, ours.
    """
    p, q = np.asarray(density, float), 1 - np.asarray(density, float)
    # The root of m's derivative p q beta^2 + 2 c beta - p^2/4 = 0, without cancellation at q = 0.
    c = q**2 + p / 4
    beta = p**2 / 4 / (c + np.sqrt(c**2 + p**3 * q / 4))
    m = c * beta**2 + p * q / 3 * beta**3 - p**2 / 4 * beta + p**2 / 3 - 3 * p**3 / 16
    return np.asarray(m / (p / 3 - p**2 / 4))
