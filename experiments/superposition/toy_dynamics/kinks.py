"""Kinks of a curve, and a curve without any. It uses no JAX, as records do not."""

import numpy as np
from numpy.typing import ArrayLike


def kinks(x: ArrayLike, y: ArrayLike, *, tolerance: float = 0.02, most: int = 12) -> np.ndarray:
    """Kinks of a curve: the inner ends of its best fit by pieces of straight lines.

    Each piece is a least-squares line, ``k`` pieces split the points so that the squared error is
    the lowest of all splits (by dynamic programming), and k is the smallest number for which

        root mean square of the error <= tolerance * (max y - min y).

    Neighbouring pieces share the point at which they meet; pieces need not be continuous there.

    Args:
        x: ``[n]``, increasing.
        y: ``[n]``, finite: the logarithm of a loss, whose slope is its rate of decay.
        tolerance: Allowed error, above 0.
        most: Largest number of pieces, at least 1; they are used up where the tolerance is missed.

    Returns:
        The x of the kinks, increasing; empty for a straight line.

    Raises:
        ValueError: If x does not increase, y has another length or is not finite, or a bound is
            not positive.

    Source: segmented least squares by dynamic programming; the loss kinks of the toy-models paper's
        learning dynamics are marked there by eye.
    """
    places, heights = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if places.ndim != 1 or not (np.diff(places) > 0).all():
        raise ValueError("x must be one increasing row")
    if heights.shape != places.shape or not np.isfinite(heights).all():
        raise ValueError(f"y has shape {heights.shape}, must have {places.size} finite numbers")
    if not tolerance > 0 or most < 1:
        raise ValueError(f"tolerance={tolerance} must be positive, most={most} at least 1")
    error = _errors(places, heights)
    last = places.size - 1
    allowed = places.size * (tolerance * np.ptp(heights)) ** 2
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
    inner = sorted({int(i) for i in found} - {0, last})
    return places[inner]


def half_fallen(x: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Where the logarithms of losses ``[x, ...]`` have half fallen, as numbers of ``x``."""
    log = np.log(loss)
    found: np.ndarray = x[(log <= (log[0] + log[-1]) / 2).argmax(axis=0)]
    return found


def smooth_fall(x: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """An exponential fall from the first to the last loss that is halfway when this one is.

    Args:
        x: Increasing numbers.
        loss: A number for each; its last is below its first.
    """
    halfway = int((loss <= (loss[0] + loss[-1]) / 2).argmax())
    found: np.ndarray = loss[-1] + (loss[0] - loss[-1]) * 0.5 ** ((x - x[0]) / (x[halfway] - x[0]))
    return found


def _errors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error of the line through points i to j, ``[i, j]``; infinite below two points."""
    n = x.size
    x, y = (x - x.mean()) / max(np.ptp(x), 1e-300), y - y.mean()
    sums = [np.concatenate([[0.0], np.cumsum(v)]) for v in (np.ones(n), x, y, x * x, x * y, y * y)]
    count, sx, sy, sxx, sxy, syy = (s[None, 1:] - s[:-1, None] for s in sums)
    usable = count >= 2
    count = np.where(usable, count, 2)
    spread = np.where(usable, sxx - sx**2 / count, 1)
    error = syy - sy**2 / count - (sxy - sx * sy / count) ** 2 / spread
    return np.where(usable, np.maximum(error, 0), np.inf)
