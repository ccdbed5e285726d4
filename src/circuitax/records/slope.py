"""The slope of a straight line through independent points."""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.records.estimate import Estimate


def slope_estimate(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The slope of y against x by least squares, with Student's 95 % interval over the residuals.

    ``slope ± t_{n-2, 0.975} s / sqrt(Σ (x - mean x)²)``, with ``s² = Σ residual² / (n - 2)``.

    Args:
        x: Where each point was measured; not all the same.
        y: One number for each point, of the same shape, at least three.

    Raises:
        ValueError: If there are fewer than three points, the shapes differ, or x does not vary.
    """
    at, values = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    if at.shape != values.shape or at.size < 3:
        raise ValueError(
            f"x has {at.size} points and y {values.size}, both need the same, 3 or more"
        )
    centred = at - at.mean()
    if not centred.any():
        raise ValueError("x must hold two values or more that differ")
    slope = float(centred @ values / (centred @ centred))
    residual = values - values.mean() - slope * centred
    error = np.sqrt(residual @ residual / (len(at) - 2) / (centred @ centred))
    from scipy import stats  # costs over a second: only when it is needed

    half = float(stats.t.ppf(0.975, len(at) - 2) * error)
    return Estimate(slope, slope - half, slope + half, len(at), "least squares 95%")
