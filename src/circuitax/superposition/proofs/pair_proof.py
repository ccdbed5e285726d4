"""Proof of the global optimum of two features in one dimension, by branch and bound.

With features of equal density p and importances 1 and r, the loss is ``F_1 + r F_2``, where both
outputs share the weights and each has a bias of its own. The search covers all weights (as tilt and
coupling, see `pair_bounds`) by boxes, and the biases of either output by tiles over these boxes.
Level by level boxes and tiles are halved in every direction, and dropped where the bound of the
loss is above a loss that is attained. No tile is dropped for another reason, so that what is left
at the end holds every global minimiser, for each importance asked for.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from circuitax.kernel.checks import check_range
from circuitax.superposition.proofs.intervals import Interval
from circuitax.superposition.proofs.pair_bounds import (
    Plane,
    Squares,
    corner_bounds,
    raised,
    squares,
    steep_bound,
    useful,
)
from circuitax.superposition.proofs.pair_classes import pair_classes
from circuitax.superposition.proofs.pair_loss import pair_error

# Boxes a side, and tiles of a bias, at the first level.
SIDE = 8
# Candidates with a smaller coupling are left out: the closed form divides by it.
LEAST_COUPLING = 1e-4
# Candidates with a larger weight or bias are left out too.
LARGEST = 1e6
# What the proof is made for. Where features are rarer, what bounds the search is lost in rounding,
# as a share of p^2 of a loss; gains and biases stay below 1e5, which `pair_bounds.SLACK` relies on.
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
