"""Proof of the global optimum for three features in two dimensions, its reach and its audit.

With features of equal density p and importances 1, 1 and r the loss is ``F_1 + F_2 + r F_3``. The
outputs share the Gram matrix of the features, six numbers with determinant 0, and each has a bias
of its own. The search covers all possible matrices by boxes, and each output's biases by tiles.
An output depends on three of the six numbers, so that boxes share few cells of three ranges: bounds
are computed once for each cell. In turns couplings and norms are halved, and boxes dropped where
the bound of the loss is above a loss that is attained. A box is done when it holds no class but the
best candidate's and its bound is close to that loss. What is done or left holds every global
minimiser.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from circuitax.kernel.checks import check_range
from circuitax.superposition.intervals import Interval
from circuitax.superposition.pair_proof import ABOVE, LARGEST, LEAST_COUPLING, exact_error
from circuitax.superposition.triple_cells import (
    BATCH,
    COUPLINGS,
    NORMS,
    Grid,
    TripleClass,
    best_tiles,
    box_bounds,
    feasible,
    halved,
    shared_cells,
    still_open,
    triple_classes,
)
from circuitax.superposition.triple_loss import Cells, Couplings, Tiles, triple_error

ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
SIDE = 8  # boxes a side at the first level
# What the proof is made for: norms stay below 1e3, and cells can be numbered.
DENSITIES, IMPORTANCES, LEVELS = "[0.01, 1]", "[0.01, 100]", "[1, 32]"


class Level(NamedTuple):
    """Proven bounds after a level, and its cost.

    Attributes:
        lower: No weights have a lower loss.
        class_lower: No weights of a class have a lower loss; infinite where the class is excluded.
        n_boxes: Boxes whose bound was computed.
        n_left: Boxes that are neither dropped nor done.
        n_tiles: Tiles whose bound was computed.
    """

    lower: float
    class_lower: Float[np.ndarray, " class"]
    n_boxes: int
    n_left: int
    n_tiles: int


class Sample(NamedTuple):
    """A sample of a proof's tiles, for audits in another arithmetic.

    Attributes:
        bound: Of one output, as `triple_loss.Tiles.bound`.
    """

    gain: Float[np.ndarray, "tile 2"]
    one: Float[np.ndarray, "tile 2"]
    two: Float[np.ndarray, "tile 2"]
    bias: Float[np.ndarray, "tile 2"]
    bound: Float[np.ndarray, "tile 4"]


class TripleProof(NamedTuple):
    """Proven bounds on the global minimum, level by level."""

    upper: float
    levels: list[Level]
    sample: Sample

    @property
    def possible(self) -> list[TripleClass]:
        """Classes that may hold a global minimiser; all others are excluded."""
        return [kind for kind in TripleClass if np.isfinite(self.levels[-1].class_lower[kind])]


def prove_triple(
    density: float,
    importance: float,
    W: Float[np.ndarray, "candidate 2 3"],
    b: Float[np.ndarray, "candidate 3"],
    *,
    tolerance: float = 0.05,
    levels: int = 12,
    max_boxes: int = 1_000_000,
    n_sampled: int = 4,
) -> TripleProof:
    """Bound the global minimum of the sum loss from below, and exclude classes of solutions.

    Source: exact loss of the toy-models paper; bounds and search are ours.
    """
    check_range("density", density, DENSITIES)
    check_range("importance", importance, IMPORTANCES)
    check_range("tolerance", tolerance, "(0, 1]")
    check_range("levels", levels, LEVELS)
    upper, target = _attained(density, importance, W, b)
    grid, boxes = _start(density, importance, upper)
    known, done, samples = None, [], []
    settled = np.full(len(TripleClass), np.inf)
    for level in range(levels):
        if level:
            grid, boxes = halved(grid, boxes, COUPLINGS if level % 2 else NORMS)
        boxes = np.concatenate([part[feasible(*grid.ends(part))] for part in _parts(boxes)])
        if level and boxes.shape[0] > max_boxes:
            break
        shared = shared_cells(grid, boxes)
        tiles = best_tiles(density, grid, shared, known, couplings_halved=level % 2 == 1)
        samples.append(_sample(shared.cells, tiles, n_sampled))
        bound, room = box_bounds(importance, upper, tiles, shared)
        held = triple_classes(*grid.ends(boxes))
        kept = ~(bound > upper)
        near = kept & (bound >= (1 - tolerance) * upper) & ~(held & ~target).any(axis=1)
        open_ = kept & ~near
        settled = np.minimum(settled, _least(bound, held, near))
        lower = np.minimum(settled, _least(bound, held, open_))
        size = boxes.shape[0], int(open_.sum()), tiles.cell.size
        if np.isinf(lower).all():
            raise ValueError(
                "every box was dropped, though one holds the minimum: a bound is wrong"
            )
        done.append(Level(float(lower.min()), lower, *size))
        if not open_.any():
            break
        known = still_open(tiles, shared, open_, room)
        boxes = boxes[open_]
    joined = Sample(*(np.concatenate(parts) for parts in zip(*samples, strict=True)))
    return TripleProof(upper, done, joined)


def _sample(cells: Cells, tiles: Tiles, n: int) -> Sample:
    """Tiles at even distances."""
    count = tiles.cell.size
    some = np.unique(np.linspace(0, max(count - 1, 0), n).astype(int))[:count]
    return Sample(*cells.at(tiles.cell[some]), tiles.bias[some], tiles.bound[some])


def _least(bound: np.ndarray, held: np.ndarray, which: np.ndarray) -> Float[np.ndarray, " class"]:
    """The least bound of some boxes that may hold a member of each class."""
    return np.where(held[which], bound[which, None], np.inf).min(axis=0, initial=np.inf)


def _attained(
    density: float, importance: float, W: np.ndarray, b: np.ndarray
) -> tuple[float, Bool[np.ndarray, " class"]]:
    """The least loss of a candidate, rounded upwards, and the class of that candidate."""
    p = Interval(density)
    ignored = float((p / 3 - p * p / 4).high)
    losses = [ignored, ignored * importance * ABOVE]
    kinds = list(np.eye(len(TripleClass), dtype=bool)[[TripleClass.dedicated, TripleClass.ignored]])
    for weights, bias in zip(W, b, strict=True):
        if not np.abs(np.append(weights, bias)).max() <= LARGEST:  # or NaN
            continue
        columns = [(Interval(x), Interval(y)) for x, y in weights.T]
        gram = [[x * u + y * v for u, v in columns] for x, y in columns]
        pairs = [(gram[i][i], gram[i][i - 1], gram[i][i - 2]) for i in range(3)]
        if min(float(abs(k.low)) for _, *ks in pairs for k in ks) < LEAST_COUPLING / 2:
            continue
        errors = [
            float(triple_error(p, a, Couplings(*ks), Interval(at)).high)
            for (a, *ks), at in zip(pairs, bias, strict=True)
        ]
        losses.append((errors[0] + errors[1] + importance * errors[2]) * ABOVE * ABOVE)
        entries = [gram[i][j] for i, j in ENTRIES]
        ends = ([[getattr(x, end) for x in entries]] for end in ("low", "high"))
        kinds.append(triple_classes(*(np.array(end, float) for end in ends))[0])
    best = int(np.argmin(losses))
    return losses[best], kinds[best]


def _start(density: float, importance: float, upper: float) -> tuple[Grid, np.ndarray]:
    """Boxes that cover every minimiser, since long features cost too much (`steepness_bound`)."""
    share = np.sqrt(np.minimum(3 * upper / (density * np.array([1, 1, importance])), 1 - 1e-9))
    longest = (1 + share) / (1 - share) * (1 + 1e-6)
    norm = np.ceil(8 * longest.max()) / 8 / SIDE
    reach = np.ceil(8 * np.sqrt(longest[0] * longest[1:].max())) / 8
    counts = [*np.ceil(longest / norm).astype(int), SIDE, SIDE, SIDE]
    axes = np.meshgrid(*(np.arange(n) for n in counts), indexing="ij")
    grid = Grid(norm, 3 * reach / SIDE, 3 * reach / SIDE / 4, reach)
    return grid, np.stack([axis.ravel() for axis in axes], axis=1).astype(np.int32)


def _parts(boxes: np.ndarray) -> list[np.ndarray]:
    return np.array_split(boxes, max(1, boxes.shape[0] // BATCH))


# Where members of a tile are taken: shares of its sides in gain, couplings and bias.
SHARES = ((1 / 2, 1 / 2, 1 / 2, 1 / 2), (1 / 16, 0, 1, 15 / 16), (15 / 16, 1, 1 / 16, 0))


class Audit(NamedTuple):
    """Sampled bounds of a proof compared with exact losses.

    Attributes:
        n_wrong: Bounds above the loss of a member, or no numbers: any of them would make the proof
            worthless.
    """

    n_repeated: int
    n_wrong: int


def audit(density: float, sample: Sample) -> Audit:
    """Compute the error of members of all sampled tiles in exact rationals."""
    n_wrong = 0
    for *ends, bound in zip(*sample, strict=True):
        right = bool(np.isfinite(bound).all())
        for shares in SHARES if right else ():
            parts = [Fraction(share) for share in shares]
            gain, one, two, bias = (
                Fraction(low) + part * (Fraction(high) - Fraction(low))
                for part, (low, high) in zip(parts, ends, strict=True)
            )
            weights = [i * j for i in (1 - parts[1], parts[1]) for j in (1 - parts[2], parts[2])]
            least = sum(w * Fraction(at) for w, at in zip(weights, bound.tolist(), strict=True))
            right &= least <= exact_error(Fraction(density), gain, [one, two], bias)
        n_wrong += not right
    return Audit(len(sample.bound), n_wrong)
