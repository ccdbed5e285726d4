"""Coherence of feature sets: learned ones, random ones and optimised ones, 4 m in m."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.projection.coherence import Coherence, coherence, unit_rows
from circuitax.projection.packings import optimised_packing

# A feature with a shorter column of W has been given up.
REPRESENTED = 0.5


def learned_features(W: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Coherence [measure, seed] of the features represented by W [seed, m, n], and their number."""
    rows = jnp.swapaxes(W, 1, 2)
    on = jnp.linalg.norm(rows, axis=2) >= REPRESENTED
    # Features that were given up have no direction: a zero row overlaps nothing.
    found = np.array(jax.vmap(coherence)(jnp.where(on[:, :, None], rows, 0)))
    n, count = rows.shape[1], np.asarray(on.sum(1))
    # Mean squares are over the pairs of features that have a direction.
    found[2] *= n * (n - 1) / np.maximum(count * (count - 1), 1)
    return found, count


def other_features(keys: jax.Array, m: int, most: int, n_steps: int) -> dict[str, Coherence]:
    """Coherence of 4 m random directions, and of those optimised for lines and for points.

    The optimiser takes the largest m of all calls too, so that it compiles once.
    """
    n = 4 * m
    lines, points = (
        _optimised(keys, n, m, most=most, n_steps=n_steps, signed=signed)
        for signed in (False, True)
    )
    random = jax.vmap(lambda key: unit_rows(jax.random.normal(key, (n, m))))(keys)
    # Rows past n are zero and overlap nothing, but they make pairs.
    mean_square = lines.mean_square * (4 * most * (4 * most - 1)) / (n * (n - 1))
    optimised = Coherence(lines.largest, points.largest_signed, mean_square)
    return {"random": jax.vmap(coherence)(random), "optimised": optimised}


@partial(jax.jit, static_argnames=("most", "n_steps", "signed"))
def _optimised(
    keys: jax.Array,
    n_vectors: jax.Array,
    n_dims: jax.Array,
    *,
    most: int,
    n_steps: int,
    signed: bool,
) -> Coherence:
    def one(key: jax.Array) -> Coherence:
        room = {"dim": most, "capacity": 4 * most}
        packing = optimised_packing(
            key, n_vectors, n_steps=n_steps, signed=signed, n_dims=n_dims, **room
        )
        return coherence(packing.vectors)

    return jax.vmap(one)(keys)
