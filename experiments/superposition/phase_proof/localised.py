"""Solutions of the optimiser by cell, and the points along a line where their class changes.

Nothing here is proven: the optimum is a candidate, and a change of kind is where to try a proof.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.optimum import find_optimum
from circuitax.superposition.pair_proof import Candidates

# Cells that are optimised together, so that one compiled program serves all of a run.
CELLS = 32
# A digon, and one feature with a trace of the other.
STARTS_W, STARTS_B = [[[1.0, -0.9]], [[1.0, -0.05]]], [[0.05, 0.05], [0.02, 0.2]]
# Points at which a bracket is looked at, and how often it shrinks to the gap between two.
POINTS, ROUNDS = 16, 4


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
