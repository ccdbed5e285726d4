"""Coherence of a set of directions: their largest and their mean square overlap."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.projection.tiles import block_of, gram, pad_rows, tile_mask, upper_tiles


class Coherence(NamedTuple):
    """Overlaps of distinct unit vectors, over all pairs."""

    largest: Float[Array, "*batch"]  # max |⟨u, v⟩|
    largest_signed: Float[Array, "*batch"]  # max ⟨u, v⟩: antipodal pairs do not count
    mean_square: Float[Array, "*batch"]  # mean ⟨u, v⟩²


@functools.partial(jax.jit, static_argnames="block")
def coherence(vectors: Float[Array, "n_vectors dim"], *, block: int = 512) -> Coherence:
    """Coherence of the rows after normalisation; a zero row overlaps nothing."""
    n = vectors.shape[0]
    block = min(block, n)
    tiles = upper_tiles(n, block)
    unit = pad_rows(unit_rows(vectors), block)

    def step(found: Coherence, tile: Int[Array, "2"]) -> tuple[Coherence, None]:
        g = gram(block_of(unit, tile[0], block), block_of(unit, tile[1], block))
        mask = tile_mask(tile[0], tile[1], block, n)
        return Coherence(
            jnp.maximum(found.largest, jnp.where(mask, jnp.abs(g), 0).max(0).max()),
            jnp.maximum(found.largest_signed, jnp.where(mask, g, -1).max(0).max()),
            found.mean_square + jnp.where(mask, g * g, 0).sum(0).sum() / (n * (n - 1) / 2),
        ), None

    zero = jnp.zeros((), vectors.dtype)
    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(step, Coherence(zero, zero - 1, zero), order)[0]


def coherence_by_count(vectors: Float[Array, "n_vectors dim"]) -> Float[Array, " n_vectors"]:
    """The coherence of the first N rows, for every N, from one Gram matrix; 0 at N = 1."""
    unit = unit_rows(vectors)
    g = jnp.abs(jnp.tril(gram(unit, unit), -1))
    return jax.lax.cummax(g.max(1))


def unit_rows(x: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """Rows scaled to unit length; zero rows stay zero, and so does their gradient."""
    norm_sq = (x * x).sum(-1, keepdims=True)
    positive = norm_sq > 0
    return jnp.where(positive, x / jnp.sqrt(jnp.where(positive, norm_sq, 1)), 0)
