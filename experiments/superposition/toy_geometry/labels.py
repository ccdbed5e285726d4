"""The polytope that each feature of a network belongs to, on the host."""

import numpy as np

from circuitax.superposition.polytopes import POLYTOPES, polytopes

OTHER = "other"
LINES = {name: rank / k for (k, rank), name in POLYTOPES.items()}
NAMES = (*POLYTOPES.values(), OTHER)
# Norm above which a feature counts as represented, least absolute cosine that joins two features,
# and largest distance of a D_i from that of the named polytope.
REPRESENTED, EDGE, SPREAD = 0.5, 0.2, 0.05


def labels(W: np.ndarray) -> np.ndarray:
    """The polytope of every feature of networks ``[network, n_hidden, n_features]``.

    Each is a number of `NAMES`; -1 for none.
    """
    number = {name: i for i, name in enumerate(NAMES)}
    found = np.full((W.shape[0], W.shape[2]), -1, np.int8)
    for network, row in zip(W, found, strict=True):
        if not np.isfinite(network).all():
            continue
        parts = polytopes(network, edge=EDGE, least_norm=REPRESENTED, spread=SPREAD)
        norm_sq = np.sum(network**2, axis=0)
        share = norm_sq**2 / np.maximum(np.sum((network.T @ network) ** 2, axis=1), 1e-12)
        for name, members in parts:
            at = list(members)
            # Features that are not represented may still crowd a dimension.
            whole = np.abs(share[at] - LINES.get(name, np.inf)).max() <= SPREAD
            row[at] = number[name] if whole else number[OTHER]
    return found
