"""A search that goes on from minima: tegum products, swaps of two features, one dropped.

With many more features than dimensions, dimensions are what is scarce: a solution that fills them
with orthogonal copies of one polytope (k features in r dimensions) and ignores all other features
saves, against ignoring everything,

    gain = (k L_ignored - L_polytope) / r    for every dimension,

``L_ignored = p/3 - p^2/4`` being the variance of a feature. The polytope with the greatest gain is
the best such product, whatever the numbers of features and dimensions are.

At low density a toy model has a minimum for each order of its features around a polygon, and random
starts seldom meet the best of them; from any of these minima a few swaps lead there.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.descent import Effort, Settled, begin, minimise
from circuitax.superposition.expected_loss import Padding, expected_loss

# (features, dimensions) of the polytopes whose vertices are all alike.
TEGUM_FACTORS = {
    "dedicated": (1, 1),
    "tetrahedron": (4, 3),
    "triangle": (3, 2),
    "digon": (2, 1),
    "pentagon": (5, 2),
    "square antiprism": (8, 3),
    "hexagon": (6, 2),
}
MOST_FEATURES, MOST_DIMENSIONS = 8, 3
# Norm and bias from which every polytope is improved; the last is near the pentagon's.
STARTS = ((1.0, 0.0), (0.9, 0.1), (1.12, -0.23))
N_TERMS = 96
MAX_EVALUATIONS = 200


class TegumGains(NamedTuple):
    """The best norm and bias of every polytope at every density, ``[factor, density]``.

    Attributes:
        gain: Loss saved for each hidden dimension, against ignoring all features; sum loss, I = 1.
    """

    gain: Float[Array, "factor density"]
    norm: Float[Array, "factor density"]
    bias: Float[Array, "factor density"]


def vertices(name: str) -> np.ndarray:
    """Unit vertices of a polytope in columns, ``[3, 8]``, padded with zeros."""
    k, r = TEGUM_FACTORS[name]
    if r == 1:
        corners = np.array([[1.0, -1.0]])[:, :k]
    elif r == 2:
        angle = 2 * np.pi * np.arange(k) / k
        corners = np.stack([np.cos(angle), np.sin(angle)])
    elif name == "tetrahedron":
        corners = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / 3**0.5
    else:
        turn = np.pi / 2 * np.arange(4)
        rings = np.concatenate([turn, turn + np.pi / 4])
        height = np.repeat([0.5**0.5, -(0.5**0.5)], 4)
        corners = np.stack([np.cos(rings), np.sin(rings), height]) / 1.5**0.5
    padded = np.zeros((MOST_DIMENSIONS, MOST_FEATURES))
    padded[:r, :k] = corners
    return padded


def tegum_gains(density: Float[Array, " density"]) -> TegumGains:
    """Optimise norm and bias of every polytope of `TEGUM_FACTORS` on the exact loss.

    Source: toy-models paper, "The Geometry of Superposition" (uniform superposition); the gain for
        each dimension is ours.
    """
    shapes = jnp.asarray(np.stack([vertices(name) for name in TEGUM_FACTORS]))
    sizes = np.array(list(TEGUM_FACTORS.values()), float)
    used = jnp.asarray(np.arange(MOST_FEATURES) < sizes[:, :1], density.dtype)
    k, r = (jnp.asarray(column)[:, None] for column in sizes.T)
    x, loss = _optimise(shapes, used, density)
    ignored = density / 3 - density**2 / 4
    gain = (k * ignored[None, :] - loss) / r
    return TegumGains(gain, x[..., 0], x[..., 1])


@jax.jit
def _optimise(
    shapes: Float[Array, "factor r k"],
    used: Float[Array, "factor k"],
    density: Float[Array, " density"],
) -> tuple[Float[Array, "factor density 2"], Float[Array, "factor density"]]:
    """Norm and bias with the lowest loss, from all starts, and that loss."""
    starts = jnp.asarray(STARTS, density.dtype)

    def one(V: Array, mask: Array, p: Array, start: Array) -> tuple[Array, Array]:
        def loss(x: Array) -> Array:
            weights = TiedWeights(x[0] * V, jnp.broadcast_to(x[1], mask.shape))
            densities = jnp.broadcast_to(p, mask.shape)
            return expected_loss(weights, densities, mask, n_terms=N_TERMS).value / p

        state = minimise(
            jax.value_and_grad(loss),
            begin(start),
            max_evaluations=MAX_EVALUATIONS,
            gradient_tolerance=1e-10,
        )
        return state.x, state.value * p

    over_starts = jax.vmap(one, (None, None, None, 0))
    over_density = jax.vmap(over_starts, (None, None, 0, None))
    x, loss = jax.vmap(over_density, (0, 0, None, None))(shapes, used, density, starts)
    best = jnp.argmin(loss, axis=-1)[..., None]
    return (
        jnp.take_along_axis(x, best[..., None], axis=-2)[..., 0, :],
        jnp.take_along_axis(loss, best, axis=-1)[..., 0],
    )


# The best loss has to be reached so often.
ENOUGH = 3
# Solutions of a cell from which a pass climbs, and passes, each from the next ones.
CLIMBERS, PASSES = 4, 3
# Moves tried together; where a climber has more, minima are searched from so many of these.
MOVES, SEARCHED = 48, 4
# Times that a climber tries moves, at most; six features need four.
ROUNDS = 60
LEAST_GAIN = 1e-6
# Norm and bias of a polytope's vertices at the start, up to two for each dimension and beyond.
WIDE, NARROW = (1.0, 0.0), (1.1, -0.2)
MOST_WIDE = 2

# Settles flat vectors of cells: starts, their cells, and how far.
Settle = Callable[[np.ndarray, np.ndarray, Effort], Settled]


class Efforts(NamedTuple):
    """How far a climb settles: what ranks moves, what finds minima, and what compares them."""

    glance: Effort
    search: Effort
    fine: Effort


def climbed(
    settle: Settle,
    efforts: Efforts,
    padding: Padding,
    setting: tuple[Float[np.ndarray, "cell column"], Float[np.ndarray, "cell column"]],
    restarts: tuple[Float[np.ndarray, "cell restart d"], Float[np.ndarray, "cell restart"]],
    best: Settled,
    n_reached: Int[np.ndarray, " cell"],
    slack: Float[np.ndarray, " cell"],
) -> tuple[Settled, Int[np.ndarray, " cell"]]:
    """The best solution of every cell after climbs, and how often it was reached."""
    cells = np.arange(len(slack))
    p, weight = (array[:, : padding.n_features] for array in setting)
    packed = padding.pack(polytope_starts(p * weight, padding.n_hidden))
    found = settle(
        packed.reshape(-1, packed.shape[-1]), cells.repeat(packed.shape[1]), efforts.search
    )
    polytopes = found.x.reshape(packed.shape), found.loss.reshape(packed.shape[:2])
    lowest = polytopes[0][cells, np.argmin(polytopes[1], axis=1)]
    best, n_reached = _joined(best, n_reached, slack, settle(lowest, cells, efforts.fine), cells)
    x, loss = (np.concatenate(pair, axis=1) for pair in zip(restarts, polytopes, strict=True))
    rng = np.random.default_rng(0)
    many = np.array([len(_moves(*one)) > MOVES for one in zip(p, weight, strict=True)])
    # What is reached often need not be the lowest: one climb looks, and changes no count.
    often = cells[(n_reached >= ENOUGH) | many]
    if often.size:
        start = best.x[often], best.loss[often]
        ends = _climb(settle, efforts, padding, (p, weight), start, often, rng)
        fine = settle(ends, often, efforts.fine)
        lower = fine.loss < best.loss[often] - slack[often]
        found = Settled(*(array[lower] for array in fine))
        best, n_reached = _joined(best, n_reached, slack, found, often[lower])
    # Climbers start from the best of every fourth minimum, then from the next best of these: none
    # has its start in common with another. The climbs alone are counted.
    n_reached = np.where((n_reached < ENOUGH) & ~many, 0, n_reached)
    groups = [np.arange(first, x.shape[1], CLIMBERS) for first in range(CLIMBERS)]
    for number in range(PASSES):
        few = cells[(n_reached < ENOUGH) & ~many]
        taken = [
            group[np.argsort(loss[few][:, group], axis=1, kind="stable")[:, number]]
            for group in groups
            if group.size > number
        ]
        if not few.size or not taken:
            break
        at, of = np.stack(taken, axis=1).ravel(), few.repeat(len(taken))
        ends = _climb(settle, efforts, padding, (p, weight), (x[of, at], loss[of, at]), of, rng)
        fine = settle(ends, of, efforts.fine)
        best, n_reached = _joined(best, n_reached, slack, fine, of)
    return best, np.maximum(n_reached, 1)


def polytope_starts(share: Float[np.ndarray, "cell n_features"], n_hidden: int) -> TiedWeights:
    """Orthogonal copies of one polytope on the features with the largest share of the loss."""
    n_features = share.shape[1]
    order = np.argsort(-share, axis=1, kind="stable")
    Ws, bs = [], []
    for name, (k, r) in TEGUM_FACTORS.items():
        copies = min(n_hidden // r, n_features // k)
        if not copies:
            continue
        norm, bias = WIDE if k <= MOST_WIDE * r else NARROW
        W, b = np.zeros((n_hidden, n_features)), np.full(n_features, 0.05)
        for copy in range(copies):
            here = slice(copy * k, (copy + 1) * k)
            W[copy * r : (copy + 1) * r, here] = norm * vertices(name)[:r, :k]
            b[here] = bias
        at = np.argsort(order, axis=1)
        Ws.append(np.moveaxis(W[:, at], 1, 0))
        bs.append(b[at])
    return TiedWeights(*map(jax.device_put, (np.stack(Ws, axis=1), np.stack(bs, axis=1))))


def neighbours(
    weights: TiedWeights,
    density: Float[np.ndarray, " n_features"],
    moves: Int[np.ndarray, "move 2"],
) -> TiedWeights:
    """One solution after each move: two features swapped, or one dropped."""
    W, b = (np.stack([np.asarray(array)] * len(moves)) for array in weights)
    for one, (i, j) in enumerate(moves):
        if i == j:
            W[one, :, i], b[one, i] = 0, density[i] / 2
        else:
            W[one][:, [i, j]], b[one][[i, j]] = W[one][:, [j, i]], b[one][[j, i]]
    return TiedWeights(jax.device_put(W), jax.device_put(b))


def _climb(
    settle: Settle,
    efforts: Efforts,
    padding: Padding,
    setting: tuple[np.ndarray, np.ndarray],
    start: tuple[np.ndarray, np.ndarray],
    cells: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """End of each climber; climbers of all cells go side by side."""
    x, loss = (array.copy() for array in start)
    p, weight = setting
    moves = [rng.permutation(_moves(p[cell], weight[cell])) for cell in cells]
    n_moves = np.array([len(some) for some in moves])
    idle = np.zeros(len(x), int)  # moves since the last that led lower
    for _ in range(ROUNDS):
        moving = np.flatnonzero(idle < n_moves)
        if not moving.size:
            break
        models = padding.unpack(x[moving])
        tried = []
        for one, i in enumerate(moving):
            model = TiedWeights(models.W[one], models.b[one])
            tried.append(padding.pack(neighbours(model, p[cells[i]], moves[i][:MOVES])))
            moves[i] = np.roll(moves[i], -MOVES, axis=0)
        of = moving.repeat([len(rows) for rows in tried])
        x_tried = np.concatenate(tried)
        if n_moves.max() > MOVES:
            seen = settle(x_tried, cells[of], efforts.glance)
            first = np.concatenate([_lowest(seen.loss, of == i, SEARCHED) for i in moving])
            x_tried, of = seen.x[first], of[first]
        found = settle(x_tried, cells[of], efforts.search)
        lowest = np.concatenate([_lowest(found.loss, of == i, 1) for i in moving])
        gains = found.loss[lowest] < loss[moving] * (1 - LEAST_GAIN)
        idle[moving] = np.where(gains, 0, idle[moving] + MOVES)
        moving, lowest = moving[gains], lowest[gains]
        x[moving], loss[moving] = found.x[lowest], found.loss[lowest]
    return x


def _lowest(loss: np.ndarray, which: np.ndarray, count: int) -> np.ndarray:
    """Indices of the lowest losses among some."""
    some = np.flatnonzero(which)
    return some[np.argsort(loss[some], kind="stable")[:count]]


def _moves(p: np.ndarray, weight: np.ndarray) -> list[tuple[int, int]]:
    """All moves: swaps of two unequal features, and drops of one."""
    pairs = itertools.combinations_with_replacement(range(len(p)), 2)
    return [(i, j) for i, j in pairs if i == j or p[i] != p[j] or weight[i] != weight[j]]


def _joined(
    best: Settled,
    n_reached: np.ndarray,
    slack: np.ndarray,
    found: Settled,
    cells: np.ndarray,
) -> tuple[Settled, np.ndarray]:
    """The best of both in every cell, and how often it was reached; found ones may share a cell."""
    x, loss, gradient = (array.copy() for array in best)
    counts = n_reached.copy()
    for i, cell in enumerate(cells):
        if found.loss[i] < loss[cell] - slack[cell]:
            x[cell], loss[cell], gradient[cell] = found.x[i], found.loss[i], found.gradient[i]
            counts[cell] = 0
        counts[cell] += found.loss[i] <= loss[cell] + slack[cell]
    return Settled(x, loss, gradient), counts
