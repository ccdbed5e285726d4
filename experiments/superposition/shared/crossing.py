"""Sign changes of a measured curve."""

import numpy as np


def crossing(x: np.ndarray, y: np.ndarray) -> float:
    """First sign change of y along increasing x, by linear interpolation; NaN if there is none.

    Where y is exactly 0 between two signs, the first such x is the answer.

    Args:
        x: Increasing numbers.
        y: One finite number for each x.

    Raises:
        ValueError: If x does not increase, y has another length, or y holds NaN or infinity.
    """
    if not (np.diff(x) > 0).all():
        raise ValueError(f"x={np.asarray(x)} must increase")
    if x.shape != y.shape:
        raise ValueError(f"y has shape {y.shape}, must have that of x, {x.shape}")
    if not np.isfinite(y).all():
        raise ValueError(
            f"y[{np.isfinite(y).argmin()}]={y[np.isfinite(y).argmin()]} must be finite"
        )
    signed = np.flatnonzero(y)
    change = np.flatnonzero(np.sign(y[signed[1:]]) != np.sign(y[signed[:-1]]))
    if change.size == 0:
        return float("nan")
    i = signed[change[0]]
    if y[i + 1] == 0:
        return float(x[i + 1])
    return float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))
