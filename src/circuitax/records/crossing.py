"""Where a measured curve changes sign."""

import numpy as np


def crossing(x: np.ndarray, y: np.ndarray) -> float:
    """Where y first changes sign along increasing x, by linear interpolation; NaN if it does not.

    Args:
        x: Increasing numbers.
        y: One number for each x.

    Raises:
        ValueError: If x does not increase.
    """
    if not (np.diff(x) > 0).all():
        raise ValueError(f"x={np.asarray(x)} must increase")
    change = np.flatnonzero(np.sign(y[1:]) * np.sign(y[:-1]) < 0)
    if change.size == 0:
        return float("nan")
    i = change[0]
    return float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))
