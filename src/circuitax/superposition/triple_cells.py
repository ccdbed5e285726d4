"""Boxes of Gram matrices of three features, and the cells that their outputs share.

A box is a range for each of ``a_1, a_2, a_3, k_12, k_13, k_23``, the squared norms and the products
of the features' directions. Rotations of the hidden space change none of them.

The error of an output depends on its norm and on two couplings. Many boxes share such a cell, so
that its bound is computed once, over the biases that are known to hold the best one.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from circuitax.kernel.checks import check_range
from circuitax.superposition.intervals import Interval
from circuitax.superposition.pair_proof import BELOW
from circuitax.superposition.triple_loss import Cells, Tiles, bias_range, tile_bounds

# Where a coupling stands, and the two features it couples.
PAIRS = ((3, 0, 1), (4, 0, 2), (5, 1, 2))
# Far above what rounding does to sums of products of numbers below 1e2.
SLACK = 1e-9
# Of larger ones rounding is a share: of a product, and of a determinant at a rounded centre.
ROUNDED, TERMS_ROUNDED = 2.0**-50, 2.0**-46
# The thresholds of `phases`, the first one squared.
REPRESENTED_SQ, SHARED = 0.25, 0.5

Ends = Float[np.ndarray, "box 6"]


class TripleClass(IntEnum):
    """Phase of the last of three features, in the order of `triple_classes`."""

    ignored = 0
    """``|w_3| < 1/2``."""
    dedicated = 1
    """``|w_3| >= 1/2`` and interference ``(k_13^2 + k_23^2) / a_3 < 1/2``."""
    superposed = 2
    """``|w_3| >= 1/2`` and more interference."""


def feasible(low: Ends, high: Ends) -> Bool[np.ndarray, " box"]:
    """Whether a box may hold a positive semidefinite matrix of rank two with ``a_1 >= a_2``.

    Features 1 and 2 have equal importances, so that exchanging them changes no loss. A box without
    ``k_ij^2 <= a_i a_j`` or without a determinant of 0 holds none; that of the centre must then be
    within reach of the gradient.
    """
    for name, ends in (("low", low), ("high", high)):
        check_range(name, ends, "[-1e50, 1e50]")
    possible = high[:, 0] >= low[:, 1]
    for at, i, j in PAIRS:
        product = high[:, i] * high[:, j]
        least = _squares(low[:, at], high[:, at])[0] * (1 - ROUNDED)
        possible &= least <= product + np.abs(product) * ROUNDED + SLACK
    a, b, c, k, m, n = (Interval(low[:, i], high[:, i]) for i in range(6))
    gradient = [
        b * c - n * n,
        a * c - m * m,
        a * b - k * k,
        2 * (m * n - c * k),
        2 * (k * n - b * m),
        2 * (k * m - a * n),
    ]
    half = (high - low) / 2
    steepest = [np.maximum(np.abs(part.low), np.abs(part.high)) for part in gradient]
    reach = np.sum([size * half[:, i] for i, size in enumerate(steepest)], axis=0)
    centre = (low + high) / 2
    terms = _terms(*centre.T)
    sizes = _terms(*np.maximum(np.abs(low), np.abs(high)).T)
    missed = TERMS_ROUNDED * np.sum(np.abs(sizes), axis=0)
    determinant = sum(terms)
    return np.asarray(possible & (np.abs(determinant) <= reach * (1 + ROUNDED) + missed + SLACK))


def _terms(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, k: np.ndarray, m: np.ndarray, n: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Terms of the determinant."""
    return a * b * c, 2 * k * m * n, -a * n * n, -b * m * m, -c * k * k


def triple_classes(low: Ends, high: Ends) -> Bool[np.ndarray, "box 3"]:
    """Mask of each `TripleClass` possible in each box; rounding may add one, and loses none."""
    with_1, with_2 = (_squares(low[:, k], high[:, k]) for k in (4, 5))
    least = (with_1[0] + with_2[0]) * (1 - ROUNDED)
    most = (with_1[1] + with_2[1]) * (1 + ROUNDED)
    kept = high[:, 2] >= REPRESENTED_SQ
    return np.stack(
        [
            low[:, 2] < REPRESENTED_SQ,
            kept & (least < SHARED * high[:, 2] + SLACK),
            kept & (most > SHARED * low[:, 2] - SLACK),
        ],
        axis=-1,
    )


def _squares(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest square in each interval."""
    least, most = np.minimum(low**2, high**2), np.maximum(low**2, high**2)
    return np.where((low < 0) & (high > 0), 0.0, least), most


# Norm and couplings of each output among ``a_1, a_2, a_3, k_12, k_13, k_23``.
OUTPUTS = ((0, 3, 4), (1, 3, 5), (2, 4, 5))
NORMS, COUPLINGS = [0, 1, 2], [3, 4, 5]
# What a cell's number counts in, and boxes that are added up together.
BASE, BATCH = 1 << 20, 200_000


class Grid(NamedTuple):
    """Common sizes of all boxes and tiles; the least coupling is ``-reach``."""

    norm: float
    coupling: float
    bias: float
    reach: float

    def ends(self, boxes: Int[np.ndarray, "box 6"]) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends: exact, since few bits are in use."""
        size = np.repeat([self.norm, self.coupling], 3)
        low = boxes * size - np.repeat([0.0, self.reach], 3)
        return low, low + size


class Known(NamedTuple):
    """Indices of cells, in order, and the range of their best bias."""

    cell: Int[np.ndarray, " cell"]
    bias: Float[np.ndarray, "cell 2"]


class Shared(NamedTuple):
    """The distinct cells of some boxes; ``inverse`` maps a box and an output to its cell.

    Attributes:
        turned: Whether the output's couplings are in the other order than the cell's.
    """

    number: Int[np.ndarray, " cell"]
    cells: Cells
    inverse: Int[np.ndarray, "3 box"]
    turned: Bool[np.ndarray, "3 box"]


def halved(
    grid: Grid, boxes: Int[np.ndarray, "box 6"], which: list[int]
) -> tuple[Grid, Int[np.ndarray, "smaller 6"]]:
    """Eight boxes for each one; biases are halved with couplings."""
    ends = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)], np.int32)
    smaller = np.repeat(boxes, 8, axis=0)
    smaller[:, which] = 2 * smaller[:, which] + np.tile(ends, (boxes.shape[0], 1))
    if which == NORMS:
        return grid._replace(norm=grid.norm / 2), smaller
    return grid._replace(coupling=grid.coupling / 2, bias=grid.bias / 2), smaller


def shared_cells(grid: Grid, boxes: Int[np.ndarray, "box 6"]) -> Shared:
    """The cells of all boxes, the lower coupling first: exchanging both changes no error."""
    indices = [boxes[:, output].astype(np.int64).T for output in OUTPUTS]
    codes = [
        (a * BASE + np.minimum(one, two)) * BASE + np.maximum(one, two) for a, one, two in indices
    ]
    turned = np.stack([one > two for _, one, two in indices])
    number, inverse = np.unique(np.concatenate(codes), return_inverse=True)
    a, one, two = _indices(number)
    low = a * grid.norm, one * grid.coupling - grid.reach, two * grid.coupling - grid.reach
    sizes = grid.norm, grid.coupling, grid.coupling
    ends = (np.stack([x, x + size], axis=1) for x, size in zip(low, sizes, strict=True))
    return Shared(number, Cells(*ends), inverse.reshape(3, -1), turned)


def _indices(number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return number // BASE // BASE, number // BASE % BASE, number % BASE


def best_tiles(
    density: float, grid: Grid, shared: Shared, known: Known | None, couplings_halved: bool
) -> Tiles:
    """Bounds over all biases that may be best, from the bounds of the halved cell."""
    number, cells = shared.number, shared.cells
    bias = bias_range(cells)
    if known is not None:
        a, one, two = _indices(number)
        if couplings_halved:
            parent = (a * BASE + one // 2) * BASE + two // 2
        else:
            parent = (a // 2 * BASE + one) * BASE + two
        of_parent = known.bias[np.searchsorted(known.cell, parent)]
        bias[:, 0] = np.maximum(bias[:, 0], of_parent[:, 0])
        bias[:, 1] = np.minimum(bias[:, 1], of_parent[:, 1])
    first = np.floor(bias[:, 0] / grid.bias - SLACK).astype(np.int64)
    last = np.ceil(bias[:, 1] / grid.bias + SLACK).astype(np.int64)
    return tile_bounds(density, cells, first, np.maximum(last - first, 1), grid.bias)


def box_bounds(
    importance: float, upper: float, tiles: Tiles, shared: Shared
) -> tuple[Float[np.ndarray, " box"], Float[np.ndarray, "3 box"]]:
    """The bound of each box, and the room it leaves each output's error below the attained loss."""
    inverse, turned = shared.inverse, shared.turned
    n_cells = shared.number.size
    least = np.full((n_cells, 4), np.inf)
    np.minimum.at(least, tiles.cell, tiles.bound)
    other_order = least[:, [0, 2, 1, 3]]
    weight = np.array([1.0, 1.0, importance])
    bounds, rooms = [], []
    for some in np.array_split(np.arange(inverse.shape[1]), max(1, inverse.shape[1] // BATCH)):
        one, two, three = (
            np.where(turned[i, some, None], other_order[at[some]], least[at[some]]).reshape(
                -1, 2, 2
            )
            for i, at in enumerate(inverse)
        )
        total = one[:, :, :, None] + two[:, :, None, :] + importance * three[:, None, :, :]
        bounds.append(total.min(axis=(1, 2, 3)) * BELOW * BELOW)
        each = np.stack([part.min(axis=(1, 2)) for part in (one, two, three)]) * weight[:, None]
        rooms.append((upper - each.sum(axis=0) + each) / weight[:, None] + SLACK)
    return np.concatenate(bounds), np.concatenate(rooms, axis=1)


def still_open(
    tiles: Tiles,
    shared: Shared,
    open_: Bool[np.ndarray, " box"],
    room: Float[np.ndarray, "3 box"],
) -> Known:
    """The range of the best bias of each cell, for some open box."""
    number, inverse, room = shared.number, shared.inverse[:, open_], room[:, open_]
    most = np.full(number.size, -np.inf)
    np.maximum.at(most, inverse.ravel(), room.ravel())
    ok = tiles.bound.min(axis=1) <= most[tiles.cell]
    bias = np.stack([np.full(number.size, np.inf), np.full(number.size, -np.inf)], axis=1)
    np.minimum.at(bias[:, 0], tiles.cell[ok], tiles.bias[ok, 0])
    np.maximum.at(bias[:, 1], tiles.cell[ok], tiles.bias[ok, 1])
    used = bias[:, 0] <= bias[:, 1]
    return Known(number[used], bias[used])
