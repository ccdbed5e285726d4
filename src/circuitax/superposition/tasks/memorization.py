"""Memorised samples: the regular T-gon that reconstructs T training points exactly.

Let T samples of unit norm have disjoint supports, as rare features nearly have. A model that keeps
sample t in the direction ``h_t`` has ``W = sum_t h_t x_t^T``, and with a bias of ``β x_t`` on the
support of sample t its output for sample s is there ``x_t relu(h_s · h_t + β)``. Its error is
therefore that of T features of fixed value 1 in the same dimensions, and a regular T-gon of norm l
in two dimensions has none iff

    l^2 + β = 1    and    l^2 cos(2π/T) + β <= 0.

NumPy is used, not JAX.
"""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range


def tgon_norm(n_points: ArrayLike | int) -> np.ndarray:
    """``1 / (sqrt(2) sin(π/T))``, the least norm of a regular T-gon that memorises T points.

    Source: ours, after the T-gons of Henighan et al. 2023.
    """
    check_range("n_points", n_points, "[2, inf)")
    return np.asarray(1 / (np.sqrt(2) * np.sin(np.pi / np.asarray(n_points, np.float64))))


def tgon_weights(x: ArrayLike, norm: float | int) -> tuple[np.ndarray, np.ndarray]:
    """W and b of the model that stores T samples as a regular T-gon, with ``β = 1 - norm^2``.

    Source: ours, after the T-gons of Henighan et al. 2023.
    """
    samples = np.asarray(x, np.float64)
    check_range("n_points", samples.shape[1], "[2, inf)")
    check_range("norm", norm, "(0, inf)")
    angle = 2 * np.pi * np.arange(samples.shape[1]) / samples.shape[1]
    corners = norm * np.stack([np.cos(angle), np.sin(angle)])
    return corners @ samples.T, (1 - norm**2) * samples.sum(axis=1)


def reconstruction_loss(W: ArrayLike, b: ArrayLike, x: ArrayLike) -> float:
    """``mean_t sum_i (x_it - relu(W^T W x_t + b)_i)^2`` of a set of samples."""
    weights, samples = np.asarray(W, np.float64), np.asarray(x, np.float64)
    drive = weights.T @ (weights @ samples) + np.asarray(b, np.float64)[:, None]
    return float(((np.maximum(drive, 0) - samples) ** 2).sum(axis=0).mean())
