"""The exact optimum of a toy model: BFGS on the exact loss from many starts, cell by cell.

A cell is one setting of density and importance. The restarts of all cells form one batch. A first
search uses a short cosine series; a second one polishes the best few restarts of each cell with a
long series. Call it in float64 (``jax.enable_x64``): in float32 the line search stalls at relative
differences of 1e-6.
"""

import itertools
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from circuitax.cores import machine_bytes
from circuitax.display.tables import NumberTable, counted, documented
from circuitax.kernel.checks import check_range, whole
from circuitax.kernel.keys import check_key, derive
from circuitax.kernel.shown import known, tabled
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.climb import Efforts, climbed
from circuitax.superposition.descent import ROUNDS, Effort, Settled, descend
from circuitax.superposition.expected_loss import N_TERMS, Padding, batch_size, losses_with_errors

# Cosine terms of the search (errors near 1e-7, far below the gaps between solution classes) and of
# the polish (near 1e-9), by number of features, a multiple of the former: one compiled program
# serves both. Up to two features the closed form is exact.
TERMS = {1: (0, 0), 2: (0, 0), 3: (16, 16), 4: (24, 96)}
MANY_FEATURES_TERMS = (32, 128)
# The share of the search's terms with which many moves are ranked is one to this number.
GLANCED = 4
# Restarts of a cell that are polished to be counted, at most, and how near to the best loss of them
# one has reached it: as a share of it, and of the loss of a model that does nothing.
COMPARED = 10
AGREEMENT = (1e-6, 1e-12)
# Numbers drawn for random starts come in powers of two, at least this one: few programs.
LEAST_DRAWN = 256


@tabled
@documented
class Optimum(NamedTuple):
    """The best solution of every cell, with all its restarts; losses are summed over features.

    Attributes:
        weights: The best network of every cell.
        loss: Its expected loss.
        error: Truncation error of the loss, as in `ExpectedLoss`.
        gradient: Largest entry of the polished loss's gradient at the optimum.
        n_near: Restarts whose loss came within ``tolerance`` of the best; other minima may be among
            them.
        n_starts_reached: Starts, of the ten best, that reached the best loss: polished, they agree
            to 1e-6.
        n_reached: The same where they are three or more, else climbs that reached it, one at least.
        restart_weights: The solutions of all restarts, given starts after random ones.
        restart_loss: Their losses.
    """

    weights: TiedWeights  # [cell, ...]
    loss: Float[Array, " cell"]
    error: Float[Array, " cell"]
    gradient: Float[Array, " cell"]
    n_near: Int[Array, " cell"]
    n_starts_reached: Int[Array, " cell"]
    n_reached: Int[Array, " cell"]
    restart_weights: TiedWeights  # [cell, restart, ...]
    restart_loss: Float[Array, "cell restart"]

    def _table(self) -> NumberTable | None:
        if np.ndim(self.restart_loss) != 2 or not known(*self):
            return None
        counts = (self.n_starts_reached, self.n_reached, self.n_near)
        loss, starts_reached, reached, near = map(np.asarray, (self.loss, *counts))
        rows = [
            (f"cell {i}", [f"{loss[i]:.6g}", starts_reached[i], reached[i], near[i]])
            for i in range(len(reached))
        ]
        n_cells, n_starts = self.restart_loss.shape
        cells, starts = counted(n_cells, "cell"), counted(n_starts, "start")
        title = f"Optimum of {cells}, from {starts} and climbs"
        once = int(np.sum(reached == 1))
        notes = [f"reached once in {counted(once, 'cell')}: a better one may be missed"]
        columns = ("loss", "by starts", "or climbs", "starts near")
        return NumberTable(title, columns, rows, notes[: bool(once)])


def find_optimum(
    key: Key[Array, ""],
    density: Float[Array, "*cell n_features"],
    importance: Float[Array, "*cell n_features"],
    *,
    n_hidden: int,
    n_restarts: int = 40,
    starts: TiedWeights | None = None,
    init_scale: float = 1.0,
    n_polished: int = 2,
    tolerance: float = 1e-3,
    thorough: bool = True,
) -> Optimum:
    """Minimise the expected sum loss over W and b in every cell, from random and given starts.

    Args:
        key: Random starts; the same starts serve every cell, so that cells differ by setting only.
        density: P(feature is on), in [0, 1]; one row for each cell, or that of one cell. Results
            have an axis of cells in either case: ``found.weights.W[0]`` is that of the first.
        importance: I_i, not negative; of the same shape.
        n_hidden: Hidden dimensions, at least 1.
        n_restarts: Random starts of each cell; ``W ~ N(0, init_scale^2 / n_hidden)``, ``b = 0``.
        starts: Further starts, with a leading axis, such as `crossover.digon_starts`.
        init_scale: Expected norm of a feature at the start, nearly; positive.
        n_polished: Restarts of each cell whose polished solutions are kept, best first.
        tolerance: Relative distance to the best loss that counts as near it, not negative.
        thorough: Also start from polytopes, and where the best loss was reached less than three
            times, climb from several solutions by swaps of two features and by dropping one
            (`climb.climbed`), until three climbs end in it or there is no further start; from ten
            features on, climb once from the best. What these find is in ``weights`` and ``loss``,
            and not among the restarts; given as ``starts``, it is gone on from.

    Warns:
        UserWarning: If the best loss of a cell was reached once, so that there may be a better one
            that no start has reached.

    Raises:
        ValueError: If an argument is out of range, the shapes do not fit, there is no start, or the
            starts take more than this machine's memory.

    Source: toy-models paper, "The Geometry of Superposition" (best of several fits).
    """
    check_key(key, one=True)
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    density, importance = (
        jnp.asarray(x, jnp.result_type(jnp.asarray(x), float)) for x in (density, importance)
    )
    if density.ndim not in (1, 2):
        raise ValueError(
            f"density has shape {density.shape}, must be [n_features] or [cell, n_features]"
        )
    if importance.shape != density.shape:
        raise ValueError(f"importance has shape {importance.shape}, density has {density.shape}")
    density, importance = jnp.atleast_2d(density), jnp.atleast_2d(importance)
    n_cells, n_features = density.shape
    for name, size, least in (
        ("n_hidden", n_hidden, 1),
        ("n_restarts", n_restarts, 0),
        ("n_polished", n_polished, 1),
    ):
        whole(name, size, least)
    check_range("init_scale", init_scale, "(0, inf)")
    check_range("tolerance", tolerance, "[0, inf)")
    if not isinstance(starts, TiedWeights | None):
        raise ValueError(f"starts is a {type(starts).__name__}, must be TiedWeights(W, b)")
    if starts is not None and starts.W.shape[1:] != (n_hidden, n_features):
        raise ValueError(
            f"starts.W has shape {starts.W.shape}, must have (start, {n_hidden}, {n_features})"
        )
    given = 0 if starts is None else starts.W.shape[0]
    # In double precision, as starts and as what they come to.
    needed = 16 * n_cells * (n_restarts + given) * n_features * (n_hidden + 1)
    memory = machine_bytes()
    if memory is not None and needed > memory:
        raise ValueError(
            f"n_restarts={n_restarts} must be smaller: in {n_cells} cells they take {needed:.1e} "
            f"bytes, this machine has {memory:.1e}"
        )
    first = _starts(key, n_hidden, n_features, n_restarts, starts, init_scale, density.dtype)
    n_starts = first.W.shape[0]
    if n_starts == 0:
        raise ValueError("n_restarts=0 must be at least 1 when no starts are given")

    search_terms, polish_terms = TERMS.get(n_features, MANY_FEATURES_TERMS)
    n_polished = min(n_polished, n_starts)
    padding = Padding(n_hidden, n_features)
    p, weight = padding.fill(density), padding.fill(importance)
    batch = batch_size(n_cells * n_polished)

    search = Effort(search_terms, search_terms, (1e-5, 1e-6))
    fine = Effort(polish_terms, search_terms, (1e-9, 1e-13))

    def minima(x: np.ndarray, cells: np.ndarray, effort: Effort) -> Settled:
        setting = p[cells], weight[cells]
        return descend(x, *setting, rows=padding.rows, batch=batch, effort=effort)

    cells, shape = np.arange(n_cells), (n_cells, n_starts)
    every = np.tile(padding.pack(first), (n_cells, 1)), np.repeat(cells, n_starts)
    searched = minima(*every, search)
    x, loss = searched.x.reshape(*shape, -1), searched.loss.reshape(shape)
    solved, value = x.copy(), np.full(shape, np.inf, loss.dtype)
    gradient = np.zeros(shape, loss.dtype)

    def polish(some: tuple[np.ndarray, ...]) -> None:
        if some[0].size:
            found = minima(x[some], some[0], fine)
            solved[some], value[some], gradient[some] = found.x, found.loss, found.gradient

    order = np.argsort(loss, axis=1)
    kept = np.repeat(cells, n_polished), order[:, :n_polished].ravel()
    polish(kept)
    x[kept], loss[kept] = solved[kept], value[kept]
    at, lowest = np.argmin(value, axis=1), np.min(value, axis=1)
    # Others that came near are polished too: to be counted, and to be taken where one is lower. Of
    # equal ones the first stays.
    among = np.zeros(shape, bool)
    among[cells[:, None], order[:, n_polished:COMPARED]] = True
    polish(np.nonzero(among & (loss <= (1 + tolerance) * lowest[:, None])))
    share, of_nothing = AGREEMENT
    slack = share * lowest + of_nothing * np.sum(p * weight, axis=1) / 3
    lower = np.min(value, axis=1) < lowest - slack
    best = cells, np.where(lower, np.argmin(value, axis=1), at)
    end = Settled(solved[best], value[best], gradient[best])
    n_reached = np.sum(value <= (end.loss + slack)[:, None], axis=1)
    if thorough:
        some_terms = search_terms // GLANCED
        glance = Effort(some_terms, some_terms, (1e-5, 1e-6), ROUNDS[:2])
        efforts = Efforts(glance, search._replace(rounds=ROUNDS[:5]), fine)
        restarts = x, loss
        end, n_reached = climbed(
            minima, efforts, padding, (p, weight), restarts, end, n_reached, slack
        )
    if n_restarts and (n_reached == 1).any():
        warnings.warn(_reached_once(n_reached, n_restarts), stacklevel=2)

    weights = padding.unpack(end.x)
    n_terms = N_TERMS if polish_terms else 0
    final = losses_with_errors(weights, density, importance, n_terms=n_terms)
    near = loss <= (1 + tolerance) * np.asarray(final.value)[:, None]
    return Optimum(
        weights=weights,
        loss=jnp.asarray(final.value),
        error=jnp.asarray(final.error),
        gradient=jnp.asarray(end.gradient),
        n_near=jnp.asarray(np.sum(near, axis=1)),
        n_starts_reached=jnp.asarray(np.sum(value <= (end.loss + slack)[:, None], axis=1)),
        n_reached=jnp.asarray(n_reached),
        restart_weights=padding.unpack(x),
        restart_loss=jnp.asarray(loss),
    )


def _reached_once(n_reached: np.ndarray, n_restarts: int) -> str:
    cells = np.flatnonzero(n_reached == 1)
    which = ", ".join(map(str, cells[:6])) + ", ..." * (cells.size > 6)
    return (
        f"the best loss was reached once in {cells.size} of {n_reached.size} cells ({which}): a "
        f"better one may be missed; give more starts than n_restarts={n_restarts}"
    )


def _starts(
    key: Key[Array, ""],
    n_hidden: int,
    n_features: int,
    n_restarts: int,
    starts: TiedWeights | None,
    init_scale: float,
    dtype: jnp.dtype,
) -> TiedWeights:
    """Random starts, then the given ones."""
    shape = (n_restarts, n_hidden, n_features)
    count = n_restarts * n_hidden * n_features
    # Number i of a draw is the same however many follow it.
    drawn = max(LEAST_DRAWN, 1 << (count - 1).bit_length())
    W = np.asarray(jax.random.normal(derive(key, "starts"), (drawn,), dtype))[:count]
    W, b = init_scale / n_hidden**0.5 * W.reshape(shape), np.zeros((n_restarts, n_features), dtype)
    if starts is not None:
        W = np.concatenate([W, np.asarray(starts.W, dtype)])
        b = np.concatenate([b, np.asarray(starts.b, dtype)])
    return TiedWeights(jax.device_put(W), jax.device_put(b))


N_FEATURES = 5
# The least norm tells the branches apart: two digons drop a feature, a pentagon drops none.
DROPPED_NORM = 0.5


class Branches(NamedTuple):
    """Lowest sum loss of each kind of solution at every density; infinite where there is none."""

    digons: Float[Array, " density"]
    pentagon: Float[Array, " density"]


def digon_starts() -> TiedWeights:
    """The three antipodal pairings of features 0 to 3, feature 4 left out, ``[3, ...]``."""
    pairings = [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)]
    W = np.zeros((len(pairings), 2, N_FEATURES))
    for start, (a, b, c, d) in zip(W, pairings, strict=True):
        start[0, [a, b]] = 1, -1
        start[1, [c, d]] = 1, -1
    bias = np.zeros((len(pairings), N_FEATURES))
    bias[:, 4] = 0.1
    return TiedWeights(jnp.asarray(W), jnp.asarray(bias))


def pentagon_starts() -> TiedWeights:
    """The twelve regular pentagons distinct up to rotation and reflection, ``[12, ...]``."""
    orders = [(0, *rest) for rest in itertools.permutations(range(1, 5)) if rest[0] < rest[-1]]
    angle = 2 * np.pi * np.argsort(orders, axis=1) / N_FEATURES
    W = 1.1 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return TiedWeights(jnp.asarray(W), jnp.full((len(orders), N_FEATURES), -0.21))


def branch_losses(density: Float[Array, " density"], importance: Float[Array, " 5"]) -> Branches:
    """Follow both kinds of solution over density, each from all its starts.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    starts = jax.tree.map(
        lambda one, two: jnp.concatenate([one, two]), digon_starts(), pentagon_starts()
    )
    cells = density.shape[0]
    found = find_optimum(
        jax.random.key(0),  # no random start is drawn
        jnp.broadcast_to(density[:, None], (cells, N_FEATURES)),
        jnp.broadcast_to(importance[None, :], (cells, N_FEATURES)),
        n_hidden=2,
        n_restarts=0,
        starts=starts,
        n_polished=15,
        thorough=False,
    )
    norms = jnp.linalg.norm(found.restart_weights.W, axis=-2)
    whole = jnp.min(norms, axis=-1) > DROPPED_NORM
    lowest = [
        jnp.min(jnp.where(kind, found.restart_loss, jnp.inf), axis=1) for kind in (~whole, whole)
    ]
    return Branches(*lowest)


def perturbed_branches(
    density: Float[Array, " cell"], ratio: Float[Array, " cell"]
) -> tuple[Branches, Branches, TiedWeights]:
    """Both kinds of solution when feature 4 has another density than the other four.

    Source: toy-models paper, "The Geometry of Superposition" (non-uniform superposition); erratum
        E18 of docs/errata.md.
    """
    others = jnp.repeat(density[:, None], N_FEATURES - 1, axis=1)
    p = jnp.concatenate([others, (density * ratio)[:, None]], axis=1)
    starts = jax.tree.map(
        lambda one, two: jnp.stack([one[0], two[0]]), digon_starts(), pentagon_starts()
    )
    found = find_optimum(
        jax.random.key(0),  # no random start is drawn
        p,
        jnp.ones_like(p),
        n_hidden=2,
        n_restarts=0,
        starts=starts,
        n_polished=2,
        thorough=False,
    )
    last = jnp.linalg.norm(found.restart_weights.W[..., -1], axis=-1)
    whole = last > DROPPED_NORM
    kept = jnp.stack([~whole[:, 0], whole[:, 1]], axis=1)
    loss = jnp.where(kept, found.restart_loss, jnp.inf)
    norm = jnp.where(kept, last, jnp.nan)
    return Branches(*loss.T), Branches(*norm.T), found.restart_weights
