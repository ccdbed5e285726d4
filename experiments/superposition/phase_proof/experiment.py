"""The phase diagram as a theorem: which solution of two features is globally optimal, and where.

For two features in one dimension the exact loss is bounded from below on boxes of weights, and
branch and bound excludes all but one class of solutions, point by point of a grid over density and
importance; then places are enclosed where the class changes, and where the minimisers at equal
importances become lopsided. For five features in two dimensions the density is enclosed at which
the regular pentagon overtakes two digons, each at its best.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float
from scipy import optimize

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.lab.lab import Lab
from circuitax.superposition.intervals import HOW, flint_version, has_flint
from circuitax.superposition.optimum import find_optimum
from circuitax.superposition.pair_loss import PairClass, lopsided
from circuitax.superposition.pair_proof import Candidates, audit, prove_pair
from circuitax.superposition.polygon_families import best_member, proven_loss

RANGES = {"importance": (0.1, 10.0), "density": (0.01, 1.0)}  # as in the paper's figure
BOUNDARY = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
FAMILY_STEP = 1e-6  # relative distance from the crossing of both families at which it is proven
CLOSE = 1e-7  # tolerance beside a boundary, where the losses of both classes are close
# At equal importances the optimiser finds ``|w_1^2 - w_2^2| / 2`` at 0 below the triple point, and
# at 0.3 above. That it crosses this number for all minimisers is what is proven.
LOPSIDED = 0.15
TRIPLE_BRACKET = (0.6, 0.85)
CELLS = 32  # optimised together, so that one compiled program serves all of a run
# A digon, and one feature with a trace of the other.
STARTS_W, STARTS_B = [[[1.0, -0.9]], [[1.0, -0.05]]], [[0.05, 0.05], [0.02, 0.2]]
POINTS, ROUNDS = 16, 4  # points of a bracket, and how often it shrinks to the gap between two
CELL = ("density", "importance")
DIMENSIONS = {
    **dict.fromkeys(("lower", "upper", "optimiser_loss"), CELL),
    **dict.fromkeys(("n_repeated", "n_wrong"), ("density",)),
    **dict.fromkeys(("triple", "crossing"), ("side",)),
    "possible": (*CELL, "class"),
    "optimiser_W": (*CELL, "feature"),
    "boundary": ("line", "side"),
    "boundary_second": ("line", "side", "end"),
}


@dataclass(frozen=True)
class Spec:
    """Grid over density (0.01 to 1) and importance of the last feature (0.1 to 10), logarithmic.

    Attributes:
        grid: Points a side.
        boundary: Densities at which the boundary between ignored and superposed is enclosed;
            denser, no class changes below importance 1.
        tolerance: Width of the enclosed optimal loss.
        ladder: Relative distances from where a class seems to change, at which proofs are tried,
            the nearest first.
        restarts: Random starts of the optimiser in each cell, beside two given ones.
    """

    grid: Annotated[int, "[2, inf)"] = 24
    boundary: Annotated[tuple[float, ...], "[1e-4, 0.7)"] = BOUNDARY
    tolerance: PositiveNumber = 1e-6
    ladder: Annotated[tuple[float, ...], "(0, 0.1]", "increasing"] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    restarts: Positive = 6

    def outside_inputs(self) -> dict[str, str]:
        """Version of the library of balls, so that another version makes another run."""
        return {"flint": flint_version()}


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Prove the grid column by column, then enclose boundaries, triple point and crossing."""
    notes = {"missing": "" if has_flint() else HOW, "tolerance": spec.tolerance}
    if not has_flint():
        lab.log(f"no ball arithmetic: {HOW}")
        return xr.Dataset(attrs=notes)
    key = derive(key, "starts")
    axes = {name: np.geomspace(*ends, spec.grid) for name, ends in RANGES.items()}
    p, r = (a.ravel() for a in np.meshgrid(axes["density"], axes["importance"], indexing="ij"))
    solved = Solved(*lab.stage("optimiser", solve, key, p, r, spec.restarts))
    columns = []
    for i in lab.track(range(spec.grid), "columns"):
        cells = slice(i * spec.grid, (i + 1) * spec.grid)
        columns.append(lab.stage(f"column-{i}", _column, spec, solved, p[cells], r[cells], cells))
    arrays = {name: np.stack([column[name] for column in columns]) for name in columns[0]}
    shape = (spec.grid, spec.grid)
    arrays |= {
        "optimiser_loss": solved.loss.reshape(shape),
        "optimiser_W": solved.W.reshape(*shape, 2),
    }
    for stage, compute in (("boundaries", _boundaries), ("points", _points)):
        arrays |= lab.stage(stage, compute, key, spec)
    arrays["crossing"] = lab.stage("crossing", _crossing)
    coords = {
        "class": [c.name for c in PairClass],
        "feature": ["first", "last"],
        "end": ["low", "high"],
        "side": ["below", "above"],
        "line": np.array(spec.boundary),
    }
    named = {name: (DIMENSIONS[name], value) for name, value in arrays.items()}
    return xr.Dataset(named, axes | coords, notes)


class Solved(NamedTuple):
    """The best solution of each cell, its loss by the exact engine, and all restarts."""

    W: Float[np.ndarray, "cell 2"]
    b: Float[np.ndarray, "cell 2"]
    loss: Float[np.ndarray, " cell"]
    restart_W: Float[np.ndarray, "cell restart 2"]
    restart_b: Float[np.ndarray, "cell restart 2"]

    def at(self, cells: slice) -> Candidates:
        """All solutions of some cells, the best first."""
        W, b = self.restart_W[cells].reshape(-1, 2), self.restart_b[cells].reshape(-1, 2)
        return Candidates(np.concatenate([self.W[cells], W]), np.concatenate([self.b[cells], b]))


def solve(key: jax.Array, density: np.ndarray, importance: np.ndarray, restarts: int) -> Solved:
    """`find_optimum` of two features in one dimension, in batches of `CELLS`."""
    n = density.size
    cells = np.resize(np.arange(n), -(-n // CELLS) * CELLS)
    parts = []
    with jax.enable_x64(True):
        starts = TiedWeights(jnp.asarray(STARTS_W), jnp.asarray(STARTS_B))
        for at in cells.reshape(-1, CELLS):
            p = np.repeat(density[at, None], 2, axis=1)
            weight = np.stack([np.ones(CELLS), importance[at]], axis=1)
            found = find_optimum(
                key,
                jnp.asarray(p),
                jnp.asarray(weight),
                n_hidden=1,
                n_restarts=restarts,
                starts=starts,
                n_polished=restarts + len(STARTS_W),
                thorough=False,
            )
            every = found.restart_weights
            best = found.weights.W[:, 0], found.weights.b, found.loss
            parts.append([np.asarray(part) for part in (*best, every.W[:, :, 0], every.b)])
    return Solved(*(np.concatenate(leaves)[:n] for leaves in zip(*parts, strict=True)))


def located(
    low: Float[np.ndarray, " line"],
    high: Float[np.ndarray, " line"],
    is_beyond: Callable[[Float[np.ndarray, "line point"]], Bool[np.ndarray, "line point"]],
) -> Float[np.ndarray, " line"]:
    """First point along each line at which a condition holds, between ``low`` and ``high``.

    The bracket shrinks geometrically to the gap before the first point at which it holds.
    """
    for _ in range(ROUNDS):
        share = np.arange(1, POINTS + 1) / (POINTS + 1)
        points = low[:, None] * (high / low)[:, None] ** share
        edges = np.concatenate([low[:, None], points, high[:, None]], axis=1)
        beyond = is_beyond(points)
        first = np.where(beyond.any(axis=1), beyond.argmax(axis=1), POINTS)
        line = np.arange(low.size)
        low, high = edges[line, first], edges[line, first + 1]
    return np.sqrt(low * high)


def _column(
    spec: Spec, solved: Solved, p: np.ndarray, r: np.ndarray, cells: slice
) -> dict[str, np.ndarray]:
    """Proven bounds at one density, for all importances, and a sample of them in balls."""
    density = float(p[0])
    proof = prove_pair(density, r, solved.at(cells), tolerance=spec.tolerance)
    again = audit(density, proof.sample)
    return {
        "lower": proof.lower,
        "upper": proof.upper,
        "possible": proof.possible,
        "n_repeated": np.array(again.n_repeated),
        "n_wrong": np.array(again.n_wrong),
    }


def _boundaries(key: jax.Array, spec: Spec) -> dict[str, np.ndarray]:
    """Importances below 1 between which the last feature is ignored, and superposed, proven.

    Both are NaN where no proof within the ladder succeeds; ``second`` is the proven range of its
    squared norm on either side.
    """
    p = np.array(spec.boundary)

    def is_kept(r: np.ndarray) -> np.ndarray:
        cells = np.repeat(p, POINTS), r.ravel()
        return np.abs(solve(key, *cells, spec.restarts).W[:, 1]).reshape(r.shape) >= 0.5

    place = located(p / 4, np.ones_like(p), is_kept)
    steps = np.concatenate([-np.array(spec.ladder), spec.ladder])
    boundary, second = np.full((p.size, 2), np.nan), np.full((p.size, 2, 2), np.nan)
    importance = place[:, None] * (1 + steps)
    near = solve(key, np.repeat(p, steps.size), importance.ravel(), spec.restarts)
    for i, density in enumerate(p):
        cells = slice(i * steps.size, (i + 1) * steps.size)
        proof = prove_pair(float(density), importance[i], near.at(cells), tolerance=CLOSE)
        alone = proof.possible[:, PairClass.ignored]
        ignored = alone & (proof.possible.sum(axis=1) == 1)
        for side, proven in enumerate((ignored & (steps < 0), ~alone & (steps > 0))):
            if proven.any():
                at = proven.argmax()  # the nearest step of a side is its first
                boundary[i, side], second[i, side] = importance[i, at], proof.second[at]
    return {"boundary": boundary, "boundary_second": second}


def _points(key: jax.Array, spec: Spec) -> dict[str, np.ndarray]:
    """Points between which minimisers at importance 1 become unequal, proven."""

    def is_lopsided(p: np.ndarray) -> np.ndarray:
        W = solve(key, p.ravel(), np.ones(p.size), spec.restarts).W
        return (np.abs(W[:, 0] ** 2 - W[:, 1] ** 2) / 2 >= LOPSIDED).reshape(p.shape)

    low, high = (np.array([end]) for end in TRIPLE_BRACKET)
    (place,) = located(low, high, is_lopsided)
    steps = np.concatenate([-np.array(spec.ladder), spec.ladder])
    p = place * (1 + steps)
    near = solve(key, p, np.ones(p.size), spec.restarts)
    triple, tilted = np.full(2, np.nan), partial(lopsided, least=LOPSIDED)
    for i, side in enumerate(steps > 0):  # the nearest first, of either side
        if np.isnan(triple[int(side)]):
            given = float(p[i]), np.ones(1), near.at(slice(i, i + 1))
            proof = prove_pair(*given, tolerance=CLOSE, classify=tilted)
            if proof.possible[0].tolist() == [not side, side]:
                triple[int(side)] = p[i]
    return {"triple": triple}


def _crossing() -> np.ndarray:
    """Densities of five features: a pentagon is proven better at one, two digons at the other."""
    place = optimize.brentq(_difference, 0.1, 0.4, xtol=1e-9)
    below, above = place * (1 - FAMILY_STEP), place * (1 + FAMILY_STEP)
    pentagons = proven_loss(5, below), proven_loss(5, above)
    proven = pentagons[0].upper < _digons(below)[0], _digons(above)[1] < pentagons[1].lower
    return np.where(proven, [below, above], np.nan)


def _difference(p: float) -> float:
    """The pentagon's loss less that of two digons, by searches that prove nothing."""
    return best_member(5, p)[0] - 2 * best_member(2, p)[0] - (p / 3 - p**2 / 4)


def _digons(p: float) -> tuple[float, float]:
    """Two digons, and a fifth feature whose best output is the constant p/2."""
    found = proven_loss(2, p)
    ignored = p / 3 - p**2 / 4
    room = 1e-15  # far above the rounding of these sums
    return 2 * found.lower + ignored - room, 2 * found.upper + ignored + room
