"""Lower bounds of the three-feature loss on boxes of the Gram matrix, by convexity.

One output depends on its gain a, on two couplings and on its bias. On a cell of these, Q lies above
its tangent plane at the centre and P below its greatest corner (`triple_loss`), so that

    F = p/3 - 2 P + Q  >=  p/3 + tangent of Q - 2 P

is bounded by a concave function, which is least at a corner. Sums of such bounds of several outputs
that share couplings are least at a corner of the shared box.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from circuitax.superposition.proofs.intervals import Interval
from circuitax.superposition.proofs.triple_loss import Couplings, triple_energy, triple_work

# Corners of gain, first and second coupling: which end of each.
CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
# Edges of bias tiles that are computed together, few enough for the cache.
BATCH = 2048


class Cells(NamedTuple):
    """Boxes of one output: lower and upper ends."""

    gain: Float[np.ndarray, "cell 2"]
    one: Float[np.ndarray, "cell 2"]
    two: Float[np.ndarray, "cell 2"]

    def at(self, chosen: Int[np.ndarray, " some"]) -> "Cells":
        """Some of the cells."""
        return Cells(*(part[chosen] for part in self))


class Tiles(NamedTuple):
    """Intervals of a bias over cells, side by side for each cell, and their bounds.

    Attributes:
        bound: At the corners low low, low high, high low and high high of the couplings.
    """

    cell: Int[np.ndarray, " tile"]
    bias: Float[np.ndarray, "tile 2"]
    bound: Float[np.ndarray, "tile 4"]


def bias_range(cells: Cells) -> Float[np.ndarray, "cell 2"]:
    """Range of the best bias."""
    one, two = np.maximum(cells.one, 0.0), np.maximum(cells.two, 0.0)
    least = -(cells.gain[:, 1] + one[:, 1] + two[:, 1])
    most = 1 + np.maximum(-cells.one[:, 0], 0.0) + np.maximum(-cells.two[:, 0], 0.0)
    return np.stack([least, most], axis=1)


def tile_bounds(
    density: float,
    cells: Cells,
    first: Int[np.ndarray, " cell"],
    count: Int[np.ndarray, " cell"],
    size: float,
) -> Tiles:
    """Bounds over all tiles ``size * [i, i + 1]`` of each cell, for ``count`` values of i."""
    parts, ends = [], np.cumsum(count + 1)
    begin = 0
    while begin < count.size:
        taken = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, taken + BATCH, side="right")))
        some = np.arange(begin, end)
        parts.append(_batch(density, cells.at(some), some, first[some], count[some], size))
        begin = end
    return Tiles(*(np.concatenate(leaves) for leaves in zip(*parts, strict=True)))


def _batch(
    density: float,
    cells: Cells,
    number: Int[np.ndarray, " cell"],
    first: Int[np.ndarray, " cell"],
    count: Int[np.ndarray, " cell"],
    size: float,
) -> Tiles:
    p = Interval(density)
    edge_cell = np.repeat(np.arange(count.size), count + 1)
    start = np.cumsum(count + 1) - (count + 1)
    step = np.arange(edge_cell.size) - start[edge_cell]
    edge = (first[edge_cell] + step) * size
    ends = [np.stack([part[edge_cell, i] for i in CORNERS[:, n]]) for n, part in enumerate(cells)]
    gain, one, two = (Interval(end) for end in ends)
    twice_work = 2 * triple_work(p, gain, Couplings(one, two), Interval(edge[None]))
    left = np.flatnonzero(step < count[edge_cell])
    middle = [0.5 * (part[edge_cell[left], 0] + part[edge_cell[left], 1]) for part in cells]
    bias = edge[left] + 0.5 * size
    centre = [Interval(value) for value in middle]
    energy = triple_energy(p, centre[0], Couplings(centre[1], centre[2]), Interval(bias))
    level = p / 3 + energy.value
    slopes = (energy.by_gain, energy.by_one, energy.by_two)
    for slope, end, at in zip(slopes, ends, centre, strict=True):
        level = level + slope * (Interval(end[:, left]) - at)
    bounds = [
        (level + energy.by_bias * (Interval(edge[left + side]) - Interval(bias))).low
        - twice_work.high[:, left + side]
        for side in (0, 1)
    ]
    # One more rounding, of a difference: far less than this below 1e3, and a share above.
    least = np.minimum(*bounds)
    least = least - np.maximum(1e-12, np.abs(least) * 2.0**-50)
    # Over the two ends of the gain: what is left are the corners of the couplings.
    corners = np.minimum(least[:4], least[4:]).T
    floor = steepness_bound(density, cells.gain[edge_cell[left], 0])
    raised = np.where(corners.min(axis=1) >= floor, corners.T, floor).T
    return Tiles(number[edge_cell[left]], np.stack([edge[left], edge[left + 1]], 1), raised)


def steepness_bound(density: float, gain: Float[np.ndarray, " cell"]) -> np.ndarray:
    """``F >= (p/3) ((a - 1)/(a + 1))^2`` for a gain ``a >= 1`` and any other weights; 0 below.

    For each drive t the error on x is at least that at ``t = -a (a - 1)/(a + 1)``, the best one.
    Rounded downwards.
    """
    a = np.maximum(gain, 1.0)
    return density / 3 * ((a - 1) / (a + 1)) ** 2 * (1 - 1e-14)
