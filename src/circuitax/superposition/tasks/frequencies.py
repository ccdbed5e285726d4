"""Features of unequal frequency: power laws, and the loss of a model that ignores the rarest.

NumPy is used, not JAX, so that records can be read with these functions.
"""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range

MEAN_SQUARE = 4 / 3
"""Mean of ``v^2`` for a value v that is uniform on [0, 2]."""


def power_law(n_features: int, exponent: float | int, active: float | int = 1.0) -> np.ndarray:
    """``p_i = c i^-α / sum_j j^-α`` for i = 1..n: c features are on in a sample, on average.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), feature frequencies.
    """
    check_range("n_features", n_features, "[1, inf)")
    check_range("exponent", exponent, "[0, inf)")
    check_range("active", active, "(0, inf)")
    weight = np.arange(1, n_features + 1, dtype=np.float64) ** -float(exponent)
    density = active * weight / weight.sum()
    if density[0] > 1 + 1e-12:
        raise ValueError(
            f"active={active} must be at most {1 / (weight[0] / weight.sum()):g} for "
            f"exponent={exponent}: the most frequent feature has density {density[0]:g}"
        )
    return np.minimum(density, 1)


def unlearned_loss(
    density: ArrayLike, n_learned: ArrayLike | int, mean_square: float | int = MEAN_SQUARE
) -> np.ndarray:
    """``<v^2> sum_{i > k} p_i``: the first k features are perfect, and all others give 0.

    It is the loss of a model without superposition, whose k is its width. The bias of a feature
    that is given back as 0 could still save ``<v>^2 p_i^2``, which is second order in p.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), weak superposition.
    """
    p = np.asarray(density, np.float64)
    check_range("density", p, "[0, 1]")
    check_range("n_learned", n_learned, f"[0, {p.size}]")
    check_range("mean_square", mean_square, "[0, inf)")
    tail = np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])
    return np.asarray(mean_square * tail[np.asarray(n_learned, int)])
