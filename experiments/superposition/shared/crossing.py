"""Sign changes of a measured curve."""

import numpy as np


def crossing(x: np.ndarray, y: np.ndarray) -> float:
    """First sign change of finite y along increasing x, by linear interpolation; NaN without one.

    Where y is exactly 0 between two signs, the first such x is the answer.
    """
    signed = np.flatnonzero(y)
    change = np.flatnonzero(np.sign(y[signed[1:]]) != np.sign(y[signed[:-1]]))
    if change.size == 0:
        return float("nan")
    i = signed[change[0]]
    if y[i + 1] == 0:
        return float(x[i + 1])
    return float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))
