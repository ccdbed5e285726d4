"""Plateaus of the loss of a network in training, and the k-gon of the same loss.

A network rests between two measurements if its loss falls by less than `FLAT` of itself within
`SPAN` of training. Resting places of at least that length that overlap are one plateau, whose level
is the median of the loss. The last plateau of each network is where training ends.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

FLAT = 0.01
SPAN = 0.05
# How far a level may be from the loss of a k-gon, as a share of it.
CLOSE = 0.005


class Plateau(NamedTuple):
    """One resting place of one network.

    Attributes:
        end: Steps.
    """

    seed: int
    begin: float
    end: float
    level: float


def plateaus(step: np.ndarray, loss: np.ndarray) -> list[Plateau]:
    """All resting places of all networks.

    Args:
        step: Evenly spaced, ``[step]``.
        loss: ``[step, seed]``, positive.
    """
    lag = max(1, round(SPAN * (step.size - 1)))
    found = []
    for seed, curve in enumerate(loss.T):
        windows = np.lib.stride_tricks.sliding_window_view(curve, lag + 1)
        rests = np.ptp(windows, axis=1) < FLAT * windows.mean(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], rests, [False]]).astype(int)))
        for first, after in edges.reshape(-1, 2):
            last = after - 1 + lag
            level = float(np.median(curve[first : last + 1]))
            found.append(Plateau(seed, float(step[first]), float(step[last]), level))
    return found


def kgon_losses(data: xr.Dataset, n_features: int) -> xr.DataArray:
    """The loss of the k-gon of each k up to c, where features left out have their best bias.

    Each of these lowers the potential by ``1/(4 c^2)``, with the bias ``1/(2c)``.

    Args:
        data: With ``h`` by ``vertices``.
        n_features: c.
    """
    h = data.h.sel(vertices=data.vertices <= n_features)
    left_out = n_features - h.vertices
    return (h + left_out) / (3 * n_features) - left_out / (4 * n_features**2)


def nearest_kgon(level: float, losses: xr.DataArray) -> int:
    """The k whose loss is within `CLOSE` of a level, or -1."""
    distance = np.abs(losses.values - level) / losses.values
    best = int(distance.argmin())
    return int(losses.vertices.values[best]) if distance[best] <= CLOSE else -1
