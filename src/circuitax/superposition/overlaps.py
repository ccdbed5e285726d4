"""How much the directions of features overlap, on average over pairs, in NumPy."""

import numpy as np
from numpy.typing import ArrayLike


def mean_square_overlap(W: ArrayLike) -> np.ndarray:
    """The mean of ``(Ŵ_i · Ŵ_j)^2`` over pairs i ≠ j of directions of features.

    It is at least ``(n - m) / (m (n - 1))``, the square of `packing_bounds.welch_bound`, and equal
    to it iff the directions are a tight frame. As ``sum_ij (Ŵ_i · Ŵ_j)^2 = |Ŵ Ŵ^T|_F^2``, no pair
    is formed.

    Args:
        W: ``[..., n_hidden, n_features]``, features in columns, none of them zero; at least two.

    Raises:
        ValueError: If there are fewer than two features or one has norm 0.

    Source: Welch 1974; Liu, Liu and Gore 2025 (arXiv 2505.10465), geometry of strong superposition.
    """
    weights = np.asarray(W, np.float64)
    n = weights.shape[-1]
    norm = np.linalg.norm(weights, axis=-2, keepdims=True)
    if n < 2:
        raise ValueError(f"W has n_features={n} columns, must have at least 2 to have pairs")
    if not (norm > 0).all():
        raise ValueError(f"W has {int((norm == 0).sum())} columns of norm 0, which have no overlap")
    unit = weights / norm
    frame = unit @ np.swapaxes(unit, -1, -2)
    return np.asarray(((frame**2).sum(axis=(-1, -2)) - n) / (n * (n - 1)))
