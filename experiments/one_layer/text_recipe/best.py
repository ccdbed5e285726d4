"""The best of several learning rates, between the rates that were tried.

Losses are ``[rate, seed]``, with a number that is not finite where a seed diverged.
"""

from typing import NamedTuple

import numpy as np

# Rates up to so many octaves from the best one are fitted: a factor of three.
REACH = 1.6


class Best(NamedTuple):
    """The lowest point of a curve of losses against rates, by seed.

    Attributes:
        place: Number of the rate whose mean loss is lowest.
        inside: Whether rates on both sides of it were tried and stayed finite. If not, it is taken
            as it is, and ``curvature`` is not a number.
        rate: The best rate of each seed.
        loss: The loss of each seed at it.
        curvature: What a factor of two from it costs each seed, nats.
    """

    place: int
    inside: bool
    rate: np.ndarray
    loss: np.ndarray
    curvature: np.ndarray


def best_index(losses: np.ndarray) -> int:
    """The rate whose mean over seeds is lowest; one at which a seed diverged is never it.

    Raises:
        ValueError: If a seed diverged at every rate.
    """
    means = np.asarray(losses).mean(axis=1)
    if not np.isfinite(means).any():
        raise ValueError("losses must be finite in all seeds at one rate or more, are at none")
    return int(np.nanargmin(means))


def nearest(index: int, n: int, n_rates: int) -> slice:
    """The n of all rates around one of them, or at that end near which it lies.

    Args:
        index: Of the rate.
        n: How many are wanted, at most ``n_rates``.
        n_rates: How many there are.
    """
    start = min(max(index - n // 2, 0), n_rates - n)
    return slice(start, start + n)


def best_rate(rates: np.ndarray, losses: np.ndarray) -> Best:
    """The lowest point of a parabola in the logarithm of the rate, fitted to each seed.

    It is fitted by least squares to the rates within `REACH` of the best one, which is the same for
    all seeds, and its lowest point is sought between the least and the greatest of them.

    Args:
        rates: Increasing.
        losses: Of every rate and seed.

    Raises:
        ValueError: If a seed diverged at every rate.
    """
    index = best_index(losses)
    octaves = np.log2(rates / rates[index])
    near = (np.abs(octaves) < REACH) & np.isfinite(losses).all(axis=1)
    x, y = octaves[near], losses[near]
    if x.min() == 0 or x.max() == 0:
        seeds = losses.shape[1]
        unknown = np.full(seeds, np.nan)
        return Best(index, False, np.full(seeds, rates[index]), losses[index], unknown)
    bend, slope, height = np.polyfit(x, y, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        lowest = np.clip(-slope / (2 * bend), x.min(), x.max())
    # A seed whose curve bends down has its lowest point at an end.
    lowest = np.where(bend > 0, lowest, x[np.argmin(y, axis=0)])
    loss = bend * lowest**2 + slope * lowest + height
    return Best(index, True, rates[index] * 2.0**lowest, loss, bend)
