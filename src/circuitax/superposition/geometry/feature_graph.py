"""The feature graph: features joined by shared dimensions. It runs on the host, returns indices."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csgraph

from circuitax.kernel.checks import check_range

Component = tuple[int, ...]


def components(W: ArrayLike, *, edge: float = 0.1, least_norm: float = 0.1) -> list[Component]:
    """Connected sets of represented features: the factors of a tegum product.

    Nodes are features with ``|W_i| > least_norm``; an edge joins i and j where the cosine of their
    directions exceeds ``edge`` in magnitude. Factors of a tegum product are orthogonal.

    Source: toy-models paper, "The Geometry of Superposition" (feature graph).
    Differs: the paper weighs edges with ``|W_i . W_j|``; cosines make one threshold serve any norm.
    """
    check_range("edge", edge, "[0, 1)")
    check_range("least_norm", least_norm, "[0, inf)")
    W = np.asarray(W, np.float64)
    check_range("W", W, "(-inf, inf)")
    norm = np.linalg.norm(W, axis=0)
    nodes = np.flatnonzero(norm > least_norm)
    directions = W[:, nodes] / norm[nodes]
    joined = np.abs(directions.T @ directions) > edge
    n_components, label = csgraph.connected_components(joined, directed=False)
    found = [tuple(int(i) for i in nodes[label == k]) for k in range(n_components)]
    return sorted(found, key=lambda c: (-len(c), c))
