"""Names for solutions, on the host: the polytopes of a model, and the phase of one feature."""

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range
from circuitax.superposition.geometry.feature_graph import Component, components
from circuitax.superposition.geometry.phases import Phase, phases

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
    check_range("spread", spread, "[0, inf)")
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
    check_range("W", W, "(-inf, inf)")
    n_features = W.shape[1]
    check_range("feature", feature, f"[{-n_features}, {n_features})")
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
