"""Overlaps of many directions: means from second moments, and tails over all pairs.

The law of random directions that they are held against is `laws.overlap_tail`, the least that is
possible `packing_bounds.welch_bound`.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.projection.coherence import unit_rows
from circuitax.projection.tiles import block_of, gram, pad_rows, tile_mask, upper_tiles


class MeanOverlaps(NamedTuple):
    """Means over all pairs of distinct rows, after normalisation.

    Attributes:
        mean: Of ``⟨u, v⟩``: how much all directions have in common; 0 for random ones.
        mean_square: Of ``⟨u, v⟩²``: 1/d for random directions, the square of the Welch bound at
            least.
    """

    mean: Float[Array, ""]
    mean_square: Float[Array, ""]


def mean_overlaps(vectors: Float[Array, "n_vectors dim"]) -> MeanOverlaps:
    """Mean and mean square of the cosine of distinct rows, in ``O(N d²)``.

    ``sum_{i≠j} ⟨u_i, u_j⟩ = |sum_i u_i|² - N`` and ``sum_{i≠j} ⟨u_i, u_j⟩² = |U^T U|_F² - N``, so
    that the N×N table is not needed.

    Source: Welch 1974; Liu, Liu and Gore 2025 (arXiv 2505.10465), geometry of strong superposition.
    """
    n = vectors.shape[0]
    if n < 2:
        raise ValueError(f"vectors has {n} rows, must have at least 2 to make a pair")
    unit = unit_rows(vectors)
    total = jnp.sum(unit, axis=0)
    moments = jnp.matmul(unit.T, unit, precision="highest")
    pairs = n * (n - 1.0)
    return MeanOverlaps(
        (jnp.vdot(total, total) - n) / pairs, (jnp.vdot(moments, moments) - n) / pairs
    )


@functools.partial(jax.jit, static_argnames="block")
def overlap_shares(
    vectors: Float[Array, "n_vectors dim"],
    thresholds: Float[Array, " threshold"],
    *,
    block: int = 512,
) -> Float[Array, " threshold"]:
    """Share of the pairs of rows with ``|cos| > threshold``, for each threshold."""
    n = vectors.shape[0]
    block = min(block, n)
    tiles = upper_tiles(n, block)
    unit = pad_rows(unit_rows(vectors), block)

    def step(
        above: Float[Array, " threshold"], tile: Int[Array, "2"]
    ) -> tuple[Float[Array, " threshold"], None]:
        g = jnp.abs(gram(block_of(unit, tile[0], block), block_of(unit, tile[1], block)))
        # What is no pair of its own must exceed no threshold.
        g = jnp.where(tile_mask(tile[0], tile[1], block, n), g, -1)
        counts = jax.lax.map(lambda bound: jnp.sum(g > bound), thresholds)
        return above + counts / (n * (n - 1) / 2), None

    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(step, jnp.zeros(thresholds.shape, vectors.dtype), order)[0]
