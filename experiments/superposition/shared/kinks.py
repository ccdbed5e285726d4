"""Kinks of a measured curve."""

import numpy as np

FINE = 0.005  # allowed error of the straight pieces over the range of log loss


def kinks(x: np.ndarray, y: np.ndarray, *, tolerance: float = FINE, most: int = 12) -> np.ndarray:
    """Kinks of a curve: the inner ends of its best fit by pieces of straight lines.

    The smallest number of pieces, at most ``most``, whose root mean square error is at most
    ``tolerance * (max y - min y)``, by dynamic programming. The paper marks kinks by eye.
    """
    error = _errors(x.astype(np.float64), y.astype(np.float64))
    last = x.size - 1
    allowed = x.size * (tolerance * np.ptp(y)) ** 2
    came_from: list[np.ndarray] = []
    lowest = error[0]
    while lowest[last] > allowed and len(came_from) < most - 1:
        through = lowest[:, None] + error
        came_from.append(through.argmin(axis=0))
        lowest = through.min(axis=0)
    at, found = last, []
    for before in came_from[::-1]:
        at = before[at]
        found.append(at)
    return x[sorted({int(i) for i in found} - {0, last})].astype(float)


def _errors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error of the line through points i to j, ``[i, j]``; infinite below two points."""
    x, y = (x - x.mean()) / max(np.ptp(x), 1e-300), y - y.mean()
    powers = (np.ones(x.size), x, y, x * x, x * y, y * y)
    sums = [np.concatenate([[0.0], np.cumsum(v)]) for v in powers]
    count, sx, sy, sxx, sxy, syy = (s[None, 1:] - s[:-1, None] for s in sums)
    usable = count >= 2
    count = np.where(usable, count, 2)
    spread = np.where(usable, sxx - sx**2 / count, 1)
    error = syy - sy**2 / count - (sxy - sx * sy / count) ** 2 / spread
    return np.where(usable, np.maximum(error, 0), np.inf)
