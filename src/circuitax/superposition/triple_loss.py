"""The error of one output coupled to two other features, and its bounds on boxes.

The output is ``relu(z)`` with ``z = a x + k_1 y_1 + k_2 y_2 + b``, where ``a = |w_1|^2`` and the
couplings are products with the other two features; each feature is on with probability p, and then
uniform on [0, 1]. As for two features (`pair_loss`), the expected squared error is

    F = p/3 - 2 P + Q,        P = E[x relu(z)],        Q = E[relu(z)^2],

and P and Q are jointly convex in (a, k_1, k_2, b). With ``f(t)`` the mean over x at a drive t, the
mean over what the others do is

    q^2 f(b) + p q sum_i (f'(b + k_i) - f'(b)) / k_i + p^2 D f'' / (k_1 k_2),

where primes stand for antiderivatives here, and ``D g = g(b + k_1 + k_2) - g(b + k_1) - g(b + k_2)
+ g(b)``. Functions take floats, arrays, intervals and balls alike.

One output depends on its gain a, on two couplings and on its bias. On a cell of these, Q lies above
its tangent plane at the centre and P below its greatest corner (`triple_loss`), so that

    F = p/3 - 2 P + Q  >=  p/3 + tangent of Q - 2 P

is bounded by a concave function, which is least at a corner. Sums of such bounds of several outputs
that share couplings are least at a corner of the shared box.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from circuitax.superposition.intervals import Interval, Number, relu
from circuitax.superposition.pair_loss import DriveMoments, drive_moments


class Couplings(NamedTuple):
    """Couplings of the output to the other two features; neither is 0."""

    one: Number
    two: Number


class TripleEnergy(NamedTuple):
    """``Q = E[relu(z)^2]`` and its partial derivatives."""

    value: Number
    by_gain: Number
    by_one: Number
    by_two: Number
    by_bias: Number


class _Ladder(NamedTuple):
    """A function of the drive and its first two antiderivatives, at one drive."""

    value: Number
    once: Number
    twice: Number


# At b, b + k_1, b + k_2 and b + k_1 + k_2.
_Drives = Sequence[_Ladder]


def triple_error(density: Number, gain: Number, couplings: Couplings, bias: Number) -> Number:
    """F, the expected squared error of one output: ``p/3 - 2 P + Q``.

    Source: toy-models paper, "Superposition as a Phase Change" (the model); integrals by us.
    """
    energy = triple_energy(density, gain, couplings, bias)
    return density / 3 - 2 * triple_work(density, gain, couplings, bias) + energy.value


def triple_work(density: Number, gain: Number, couplings: Couplings, bias: Number) -> Number:
    """``P = E[x relu(z)]``; arguments as for `triple_error`."""
    at = [(t, drive_moments(t, gain)) for t in _drives(couplings, bias)]
    return density * _mean(density, couplings, _works(gain, at))


def triple_energy(
    density: Number, gain: Number, couplings: Couplings, bias: Number
) -> TripleEnergy:
    """``Q = E[relu(z)^2]`` with its derivatives; arguments as for `triple_error`."""
    p, q = density, 1 - density
    at = [(t, drive_moments(t, gain)) for t in _drives(couplings, bias)]
    off = tuple(_power(m.relu) for _, m in at)
    on = tuple(_Ladder(m.square, m.square_sum, _square_twice(gain, t, m)) for t, m in at)
    slope_off = tuple(
        _Ladder(2 * m.relu, f.value, f.once) for (_, m), f in zip(at, off, strict=True)
    )
    slope_on = tuple(_Ladder(m.slope, m.square, m.square_sum) for _, m in at)

    def joined(idle: Number, driven: Number) -> Number:
        return q * idle + p * driven

    by_one, by_two = (
        joined(_by_coupling(p, ks, turned(off)), _by_coupling(p, ks, turned(on)))
        for ks, turned in (
            (couplings, lambda ladders: ladders),
            (Couplings(couplings.two, couplings.one), _swapped),
        )
    )
    return TripleEnergy(
        joined(_mean(p, couplings, off), _mean(p, couplings, on)),
        2 * p * _mean(p, couplings, _works(gain, at)),
        by_one,
        by_two,
        joined(_mean(p, couplings, slope_off), _mean(p, couplings, slope_on)),
    )


def _drives(couplings: Couplings, bias: Number) -> list[Number]:
    one, two = couplings
    return [bias, bias + one, bias + two, bias + one + two]


def _mean(p: Number, couplings: Couplings, at: _Drives) -> Number:
    """The mean over the other two features, each off or on."""
    q, (rest, one, two, both) = 1 - p, at
    alone = (one.once - rest.once) / couplings.one + (two.once - rest.once) / couplings.two
    together = ((both.twice - one.twice) - (two.twice - rest.twice)) / couplings.one / couplings.two
    return q * q * rest.value + p * q * alone + p * p * together


def _by_coupling(p: Number, couplings: Couplings, at: _Drives) -> Number:
    """Derivative of `_mean` by the first coupling."""
    rest, one, two, both = at
    alone = (one.once - rest.once) / couplings.one
    together = ((both.twice - one.twice) - (two.twice - rest.twice)) / couplings.one / couplings.two
    moved = (both.once - one.once) / couplings.two
    return (p * (1 - p) * (one.value - alone) + p * p * (moved - together)) / couplings.one


def _swapped(at: _Drives) -> _Drives:
    """The mean with the other two features exchanged."""
    return at[0], at[2], at[1], at[3]


def _power(tau: Number) -> _Ladder:
    """``tau^2`` and its antiderivatives in the drive."""
    square = tau * tau
    return _Ladder(square, square * tau / 3, square * square / 12)


def _works(gain: Number, at: list[tuple[Number, DriveMoments]]) -> _Drives:
    return tuple(_Ladder(m.work, m.work_sum, _work_twice(gain, t, m)) for t, m in at)


def _share(gain: Number, drive: Number) -> Number:
    """The part of x in [0, 1] with ``a x + t > 0``."""
    return 1 - relu(1 - relu(1 + drive / gain))


def _work_twice(gain: Number, drive: Number, at: DriveMoments) -> Number:
    """The second antiderivative of ``S = int x relu(a x + t) dx``."""
    a, tau, o = gain, at.relu, _share(gain, drive)
    once = a * o
    return once * once * once * o * (5 - o) / 120 + tau * (a * a / 8 + tau * (a / 6 + tau / 12))


def _square_twice(gain: Number, drive: Number, at: DriveMoments) -> Number:
    """The second antiderivative of ``R = int relu(a x + t)^2 dx``."""
    a, tau, o = gain, at.relu, _share(gain, drive)
    once = a * o
    square = once * once
    return square * square * o / 60 + tau * (
        a * a * a / 12 + tau * (a * a / 6 + tau * (a / 6 + tau / 12))
    )


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
