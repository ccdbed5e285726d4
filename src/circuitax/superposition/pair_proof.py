"""Proof of the global optimum of two features in one dimension, and its audit.

It shares no formula with `pair_loss`, whose bounds it is held against. Features that are on fill a
cube, which is cut into simplices of ordered coordinates. On each of these the output's drive z is
affine; where it changes its sign, an edge is cut at the zero, and the simplex with it. On a simplex
of volume V in n dimensions, with values f_i of an affine f at its corners,

    int f^2 = V / ((n + 1) (n + 2)) (sum_i f_i^2 + (sum_i f_i)^2).

With features of equal density p and importances 1 and r, the loss is ``F_1 + r F_2``, where both
outputs share the weights and each has a bias of its own. The search covers all weights (as tilt and
coupling, see `pair_loss`) by boxes, and the biases of either output by tiles over these boxes.
Level by level boxes and tiles are halved in every direction, and dropped where the bound of the
loss is above a loss that is attained. No tile is dropped for another reason, so that what is left
at the end holds every global minimiser, for each importance asked for.

Balls repeat the bound that the search computed, and so find what rounding did to it. They share
its formulas; the loss of members of the tile in exact rationals (`exact_error`) does not, and must
not lie below the bound.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import factorial, hypot, isfinite
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from circuitax.kernel.checks import check_range
from circuitax.superposition.intervals import Interval, ball, ball_precision, lower_end, upper_end
from circuitax.superposition.pair_loss import (
    Plane,
    Squares,
    corner_bounds,
    pair_classes,
    pair_error,
    raised,
    squares,
    steep_bound,
    useful,
)

# At a corner of a simplex: what the output should be, and its drive.
_Corner = tuple[Fraction, Fraction]


def exact_error(
    density: Fraction, gain: Fraction, couplings: Sequence[Fraction], bias: Fraction
) -> Fraction:
    """``E (x - relu(a x + sum_i k_i y_i + b))^2``, the expected squared error of one output.

    Source: toy-models paper, "Superposition as a Phase Change" (the model).
    """
    total = Fraction(0)
    for own, *others in product((False, True), repeat=1 + len(couplings)):
        slopes = [(Fraction(1), gain)] * own
        slopes += [(Fraction(0), k) for k, on in zip(couplings, others, strict=True) if on]
        missing = len(couplings) + 1 - len(slopes)
        share = density ** len(slopes) * (1 - density) ** missing
        total += share * _mean_square((Fraction(0), bias), slopes)
    return total


def _mean_square(start: _Corner, slopes: Sequence[_Corner]) -> Fraction:
    """The mean of ``(target - relu(drive))^2`` over the unit cube, for given slopes."""
    n, total = len(slopes), Fraction(0)
    for order in permutations(slopes):
        corners = [start]
        for slope in order:
            corners.append((corners[-1][0] + slope[0], corners[-1][1] + slope[1]))
        for share, pieces in _cut(Fraction(1), corners):
            values = [target - max(drive, Fraction(0)) for target, drive in pieces]
            total += share * (sum(v * v for v in values) + sum(values) ** 2)
    return total / (factorial(n) * (n + 1) * (n + 2))


def _cut(share: Fraction, corners: list[_Corner]) -> Iterator[tuple[Fraction, list[_Corner]]]:
    """Simplices on which the drive keeps its sign, and their shares of the volume."""
    above = next((i for i, (_, drive) in enumerate(corners) if drive > 0), None)
    below = next((i for i, (_, drive) in enumerate(corners) if drive < 0), None)
    if above is None or below is None:
        yield share, corners
        return
    (target, drive), (other, depth) = corners[above], corners[below]
    part = drive / (drive - depth)  # of the edge, from the positive corner
    middle = (target + part * (other - target), Fraction(0))
    for i, portion in ((below, part), (above, 1 - part)):
        yield from _cut(share * portion, [*corners[:i], middle, *corners[i + 1 :]])


# Boxes a side, and tiles of a bias, at the first level.
SIDE = 8
# Candidates with a smaller coupling are left out: the closed form divides by it.
LEAST_COUPLING = 1e-4
# Candidates with a larger weight or bias are left out too.
LARGEST = 1e6
# What the proof is made for. Where features are rarer, what bounds the search is lost in rounding,
# as a share of p^2 of a loss; gains and biases stay below 1e5, which `pair_loss.SLACK` relies on.
DENSITIES, IMPORTANCES = "[1e-4, 1]", "[1e-5, 1e5]"
# More halvings would need more digits than a float has.
LEVELS = "[1, 24]"
# Rounding of a product and a sum of positive numbers, with room.
BELOW, ABOVE = 1 - 1e-15, 1 + 1e-15

Classify = Callable[[Plane], Bool[np.ndarray, "box n_classes"]]


class Candidates(NamedTuple):
    """Weights and biases whose losses bound the optimum from above."""

    W: Float[np.ndarray, "candidate 2"]
    b: Float[np.ndarray, "candidate 2"]


class Sample(NamedTuple):
    """A sample of a proof's tiles, for audits in another arithmetic.

    Attributes:
        bound: Least value of `corner_bounds`.
    """

    sign: Float[np.ndarray, " tile"]
    tilt: Float[np.ndarray, "tile 2"]
    coupling: Float[np.ndarray, "tile 2"]
    bias: Float[np.ndarray, "tile 2"]
    bound: Float[np.ndarray, " tile"]


class PairProof(NamedTuple):
    """Proven bounds on the global minimum at one density, for each importance.

    Attributes:
        possible: Classes that may hold a global minimiser; all others are excluded.
        first: Range of ``w_1^2`` over all global minimisers.
        n_tiles: Tiles whose bound was computed.
    """

    lower: Float[np.ndarray, " importance"]
    upper: Float[np.ndarray, " importance"]
    possible: Bool[np.ndarray, "importance n_classes"]
    first: Float[np.ndarray, "importance 2"]
    second: Float[np.ndarray, "importance 2"]
    n_tiles: int
    sample: Sample


class _Tiles(NamedTuple):
    """Intervals of a bias over the boxes of a level."""

    box: Int[np.ndarray, " tile"]
    output: Int[np.ndarray, " tile"]
    bias: Float[np.ndarray, " tile"]

    def where(self, kept: Bool[np.ndarray, " tile"]) -> "_Tiles":
        return _Tiles(*(part[kept] for part in self))


def prove_pair(
    density: float,
    importance: Float[np.ndarray, " importance"],
    candidates: Candidates,
    *,
    tolerance: float = 1e-6,
    classify: Classify = pair_classes,
    levels: int = 18,
    max_tiles: int = 400_000,
    n_sampled: int = 4,
) -> PairProof:
    """Enclose the global minimum of the sum loss, and exclude classes of solutions.

    Source: exact loss of the toy-models paper; bounds and search are ours.
    """
    check_range("density", density, DENSITIES)
    check_range("importance", importance, IMPORTANCES)
    check_range("tolerance", tolerance, "(0, 1]")
    check_range("levels", levels, LEVELS)
    upper, target = _attained(density, importance, candidates, classify)
    close = upper - tolerance * np.minimum(1.0, upper / 1e-3)
    plane, tiles, bias_size = _start(density, importance, upper)
    open_ = np.ones((plane.tilt.size, importance.size), bool)
    lower = upper.copy()
    possible = np.zeros((importance.size, classify(plane).shape[1]), bool)
    ranges = [np.stack([np.full(importance.size, end) for end in (np.inf, 0.0)], 1) for _ in "12"]
    n_tiles, samples = 0, []
    for level in range(levels):
        inside = squares(plane)
        tiles = tiles.where(_useful(plane, inside, tiles, bias_size))
        last = level == levels - 1 or tiles.box.size > max_tiles
        bounds, sample = _bounds(density, plane, inside, tiles, bias_size, n_sampled)
        samples.append(sample)
        n_tiles += tiles.box.size
        # The least bound of either output at each corner of each box; none left, infinite.
        least = np.full((plane.tilt.size, 2, 4), np.inf)
        np.minimum.at(least, (tiles.box, tiles.output), bounds)
        loss = _sum(least[:, 0, :, None], least[:, 1, :, None], importance).min(axis=1)
        open_ &= ~(loss > upper)
        held = classify(plane)
        others = (held[:, None, :] & ~target).any(axis=-1)
        done = open_ & (last | ((loss >= close) & ~others))
        for r in np.flatnonzero(done.any(axis=0)):
            here = done[:, r]
            lower[r] = np.minimum(lower[r], loss[here, r].min())
            possible[r] |= held[here].any(axis=0)
            for known, new in zip(ranges, inside, strict=True):
                known[r] = (
                    min(known[r, 0], new.low[here].min()),
                    max(known[r, 1], new.high[here].max()),
                )
        open_ &= ~done
        if not open_.any():
            break
        tiles = tiles.where(_may_hold_minimum(bounds, least, tiles, open_, importance, upper))
        plane, tiles, open_ = _halved(plane, tiles, open_, bias_size)
        bias_size /= 2
    if not possible.any(axis=1).all():
        raise ValueError("every box was dropped, though one holds the minimum: a bound is wrong")
    joined = Sample(*(np.concatenate(parts) for parts in zip(*samples, strict=True)))
    return PairProof(lower, upper, possible, ranges[0], ranges[1], n_tiles, joined)


def _attained(
    density: float,
    importance: Float[np.ndarray, " importance"],
    candidates: Candidates,
    classify: Classify,
) -> tuple[Float[np.ndarray, " importance"], Bool[np.ndarray, "importance n_classes"]]:
    """The least loss of a candidate, rounded upwards, and the class of that candidate."""
    p = Interval(density)
    W, b = candidates.W, candidates.b
    # Too small to divide by, and too large to be of use, which NaN is as well.
    size = np.abs(np.concatenate([W, b], axis=1)).max(axis=1)
    usable = (np.abs(W[:, 0] * W[:, 1]) >= LEAST_COUPLING) & (size <= LARGEST)
    first, second = W[usable].T
    k = Interval(first) * second
    errors = [
        pair_error(p, Interval(w) * w, k, Interval(bias)).high
        for w, bias in zip((first, second), b[usable].T, strict=True)
    ]
    ignored = (p / 3 - p * p / 4).high
    errors = [np.append(errors[0], [0.0, ignored]), np.append(errors[1], [ignored, 0.0])]
    losses = (errors[0][:, None] + errors[1][:, None] * importance) * ABOVE
    best = losses.argmin(axis=0)
    tilt = np.append((first**2 - second**2) / 2, [0.5, -0.5])
    coupling = np.append(first * second, [0.0, 0.0])
    return losses.min(axis=0), classify(Plane(tilt[best], coupling[best], 0.0, 0.0))


def _start(
    density: float, importance: Float[np.ndarray, " importance"], upper: np.ndarray
) -> tuple[Plane, _Tiles, float]:
    """Boxes and tiles that cover every minimiser, by `steep_bound` and `useful`."""
    room = 1 + 1e-4
    steepest = [
        np.max(4 / (1 - 3 * upper / (density * weight)))
        for weight in (np.ones_like(importance), importance)
    ]
    tilt, coupling = (
        np.ceil(8 * room * end) / 8 for end in (max(steepest) / 2, np.prod(steepest) ** 0.5)
    )
    lowest, highest = -np.ceil(room * (max(steepest) + coupling)), np.ceil(room * (1 + coupling))

    def cut(low: float, high: float, n: int = SIDE) -> tuple[np.ndarray, float]:
        size = float(high - low) / n
        return low + size * np.arange(n), size

    tilts, tilt_size = cut(-tilt, tilt)
    couplings, coupling_size = cut(-coupling, 2 * coupling)
    # At rest the loss bends with the bias by 1, with the weights by p only.
    finer = 2 ** int(np.ceil(-0.5 * np.log2(density)))
    biases, bias_size = cut(lowest, highest, SIDE * finer)
    corners = np.meshgrid(tilts, couplings, indexing="ij")
    plane = Plane(corners[0].ravel(), corners[1].ravel(), tilt_size, coupling_size)
    every = np.meshgrid(np.arange(SIDE**2), [0, 1], biases, indexing="ij")
    return plane, _Tiles(*(part.ravel() for part in every)), bias_size


def _useful(plane: Plane, inside: Squares, tiles: _Tiles, size: float) -> np.ndarray:
    over, gain = _over_tiles(plane, inside, tiles)
    return useful(over, gain, tiles.bias, size)


def _over_tiles(plane: Plane, inside: Squares, tiles: _Tiles) -> tuple[Plane, Interval]:
    """For each tile its box, and the range of its output's gain there."""
    over = plane._replace(tilt=plane.tilt[tiles.box], coupling=plane.coupling[tiles.box])
    of_first = tiles.output == 0
    low, high = (
        np.where(of_first, one[tiles.box], two[tiles.box])
        for one, two in zip(
            (inside.first.low, inside.first.high),
            (inside.second.low, inside.second.high),
            strict=True,
        )
    )
    return over, Interval(low, high)


def _bounds(
    density: float, plane: Plane, inside: Squares, tiles: _Tiles, size: float, n_sampled: int
) -> tuple[Float[np.ndarray, "tile 4"], Sample]:
    """The bound of each tile at the corners of its box, nowhere below 0, and some as a sample."""
    over, gain = _over_tiles(plane, inside, tiles)
    low, high, below, above = over.ends()
    sign = np.where(tiles.output == 0, 1.0, -1.0)
    bias = tiles.bias, tiles.bias + size
    corners = corner_bounds(density, sign, (low, high), (below, above), bias)
    concave = np.stack([np.minimum(*(end.low for end in ends)) for ends in corners], axis=-1)
    some = np.unique(np.linspace(0, max(sign.size - 1, 0), n_sampled).astype(int))[: sign.size]
    shown = [np.stack(ends, axis=-1)[some] for ends in ((low, high), (below, above), bias)]
    sample = Sample(sign[some], shown[0], shown[1], shown[2], concave[some].min(axis=-1))
    return raised(concave, steep_bound(density, gain)), sample


def _may_hold_minimum(
    bounds: Float[np.ndarray, "tile 4"],
    least: Float[np.ndarray, "box 2 4"],
    tiles: _Tiles,
    open_: Bool[np.ndarray, "box importance"],
    importance: Float[np.ndarray, " importance"],
    upper: Float[np.ndarray, " importance"],
) -> Bool[np.ndarray, " tile"]:
    """Tiles not above the attained loss, for an importance whose box is open."""
    other = least[tiles.box, 1 - tiles.output]
    of_first = (tiles.output == 0)[:, None]
    first, second = np.where(of_first, bounds, other), np.where(of_first, other, bounds)
    kept = np.zeros(tiles.box.size, bool)
    for r in np.flatnonzero(open_.any(axis=0)):
        at = np.flatnonzero(~kept & open_[tiles.box, r])
        loss = _sum(first[at], second[at], importance[r]).min(axis=1)
        kept[at] = ~(loss > upper[r])
    return kept


def _sum(first: np.ndarray, second: np.ndarray, importance: np.ndarray | float) -> np.ndarray:
    """``F_1 + r F_2``, rounded downwards; both are non-negative lower bounds."""
    return (first + second * importance) * BELOW


def _halved(
    plane: Plane, tiles: _Tiles, open_: Bool[np.ndarray, "box importance"], bias_size: float
) -> tuple[Plane, _Tiles, Bool[np.ndarray, "quarter importance"]]:
    """Four boxes for each open one, and eight tiles for each tile over one of these."""
    kept = np.asarray(open_.any(axis=1))
    number = np.cumsum(kept) - 1
    tiles = tiles.where(kept[tiles.box])
    n, half = int(kept.sum()), (plane.tilt_size / 2, plane.coupling_size / 2)
    tilt, coupling = plane.tilt[kept], plane.coupling[kept]
    quarters = [(i, j) for i in (0, 1) for j in (0, 1)]
    smaller = Plane(
        np.concatenate([tilt + i * half[0] for i, _ in quarters]),
        np.concatenate([coupling + j * half[1] for _, j in quarters]),
        *half,
    )
    box = np.concatenate([number[tiles.box] + quarter * n for quarter in range(4)])
    bias = np.tile(tiles.bias, 4)
    cut = _Tiles(
        np.tile(box, 2),
        np.tile(tiles.output, 8),
        np.concatenate([bias, bias + bias_size / 2]),
    )
    return smaller, cut, np.tile(open_[kept], (4, 1))


# Where members of a tile are taken: shares of its sides in tilt, coupling and bias.
SHARES = ((1 / 2, 1 / 2, 1 / 2), (1 / 16, 15 / 16, 1 / 16), (15 / 16, 1 / 16, 15 / 16))

Ends = tuple[float, float]


class Audit(NamedTuple):
    """Sampled bounds of a proof compared with independent values.

    Attributes:
        n_wrong: Bounds above the one in balls or above the loss of a member, or no numbers: any of
            them would make the proof worthless.
        greatest_loss: By how much rounding outwards has lowered a bound, at most.
    """

    n_repeated: int
    n_wrong: int
    greatest_loss: float


def audit(density: float, sample: Sample, *, bits: int = 200) -> Audit:
    """Recompute the bounds of all sampled tiles in balls, and the loss of some members."""
    n_wrong, greatest = 0, 0.0
    with ball_precision(bits):
        for number, *ends, value in zip(*sample, strict=True):
            sign, bound = float(number), float(value)
            tilt, coupling, bias = ((float(low), float(high)) for low, high in ends)
            corners = corner_bounds(density, sign, tilt, coupling, bias, ball)
            least = corners[0][0]
            for at in (end for pair in corners for end in pair):
                least = least.min(at)
            members = _members(sign, tilt, coupling, bias)
            losses = [exact_error(Fraction(density), *member) for member in members]
            # What is not a number compares with nothing.
            above = upper_end(least)
            right = isfinite(above) and bound <= above and bool(losses)
            n_wrong += not (right and bound <= min(losses))
            greatest = max(greatest, lower_end(least) - bound)
    return Audit(len(sample.bound), n_wrong, greatest)


def _members(
    sign: float, tilt: Ends, coupling: Ends, bias: Ends
) -> Iterator[tuple[Fraction, list[Fraction], Fraction]]:
    """Gain, coupling and bias of some points of a tile."""
    for shares in SHARES:
        parts = zip(shares, (tilt, coupling, bias), strict=True)
        signed, k, b = (low + share * (high - low) for share, (low, high) in parts)
        signed *= sign
        gain = hypot(signed, k) + abs(signed)
        if signed < 0:  # the difference of two large numbers, without their rounding
            gain = k * k / gain
        a, coupled = Fraction(gain), Fraction(k)
        if tilt[0] <= int(sign) * (a - coupled * coupled / a) / 2 <= tilt[1]:
            yield a, [coupled], Fraction(b)
