"""Distortion at every number of dimensions m from one map, by cumulative sums over its rows.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.projection.tiles import block_of, gram, pad_rows, tile_mask, upper_tiles


class Extremes(NamedTuple):
    """Least and greatest ``‖f_m(z)‖² / ‖z‖² − 1`` over all pairs, for m = step, 2 step, ..."""

    low: Float[Array, " n_dims"]
    high: Float[Array, " n_dims"]
    n_near: Int[Array, ""]  # pairs too close for the Gram form: left out, must be 0


@functools.partial(jax.jit, static_argnames=("step", "block"))
def extremes_by_dimension(
    features: Float[Array, "n_points n_rows"],
    points: Float[Array, "n_points dim_in"] | None = None,
    *,
    step: int = 1,
    block: int = 256,
) -> Extremes:
    """Extremes over all pairs at every multiple of ``step``, where f_m uses the first m rows.

    With unscaled features ``y_k = z · r_k`` (`maps.row_features`),
    ``‖f_m(x) − f_m(y)‖² = Σ_{k≤m} (x_k − y_k)² / m``. Each tile of pairs keeps the running sum, so
    all m together cost no more than the largest m. For many maps, use ``jax.vmap`` over
    ``features``.

    ``points`` is None for orthonormal points (one-hot features): their squared distances are all 2,
    and their features are the rows of the matrix itself. ``block`` is the side of a tile.

    Source: S0 Theorem 27, proof, which writes ``‖u‖² = Σ_k X_k``.
    """
    n_points, n_rows = features.shape
    block = min(block, n_points)
    tiles = upper_tiles(n_points, block)
    # [segment, point, step]: one slice of rows is added at a time.
    padded = pad_rows(features, block)
    segments = jnp.moveaxis(padded.reshape(padded.shape[0], n_rows // step, step), 1, 0)
    dims = step * jnp.arange(1, n_rows // step + 1, dtype=features.dtype)
    original = None if points is None else pad_rows(points, block)

    def one_tile(found: Extremes, tile: Int[Array, "2"]) -> tuple[Extremes, None]:
        row, column = tile[0], tile[1]
        mask = tile_mask(row, column, block, n_points)
        distance, near = _distances(original, row, column, block, mask, features.dtype)
        used = mask & ~near

        def one_segment(
            total: Float[Array, "a b"], segment: tuple[Float[Array, "n k"], Float[Array, ""]]
        ) -> tuple[Float[Array, "a b"], tuple[Float[Array, ""], Float[Array, ""]]]:
            y, m = segment
            a, b = block_of(y, row, block), block_of(y, column, block)
            squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
            total = total + squares - 2 * gram(a, b)
            ratio = total / (m * distance) - 1
            low = jnp.where(used, ratio, jnp.inf).min(0).min()
            return total, (low, jnp.where(used, ratio, -jnp.inf).max(0).max())

        start = jnp.zeros((block, block), features.dtype)
        _, (low, high) = jax.lax.scan(one_segment, start, (segments, dims))
        n_near = found.n_near + (near & mask).sum()
        return Extremes(jnp.minimum(found.low, low), jnp.maximum(found.high, high), n_near), None

    infinite = jnp.full(dims.shape, jnp.inf, features.dtype)
    start = Extremes(infinite, -infinite, jnp.zeros((), int))
    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(one_tile, start, order)[0]


def _distances(
    points: Float[Array, "n_padded dim"] | None,
    row: Int[Array, ""],
    column: Int[Array, ""],
    block: int,
    mask: Bool[Array, "a b"],
    dtype: jnp.dtype,
) -> tuple[Float[Array, "a b"], Bool[Array, "a b"]]:
    if points is None:
        return jnp.full((block, block), 2.0, dtype), jnp.zeros((block, block), bool)
    a, b = block_of(points, row, block), block_of(points, column, block)
    total = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :]
    distance = total - 2 * gram(a, b)
    near = (distance <= 1e-2 * total) & mask
    return jnp.where(near | ~mask, 1, distance), near
