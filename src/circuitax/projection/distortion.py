"""Distortion of a point cloud by a map: over all pairs in tiles, or over a random subset."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.checks import check_range, choice, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.keys import derive
from circuitax.projection.measures import (
    DISTANCES,
    Block,
    Measure,
    make_block,
    normalised,
    pair_values,
    tile_values,
)
from circuitax.projection.stream import Stream, empty_stream, update
from circuitax.projection.tiles import block_of, pad_rows, tile_mask, upper_tiles

LIMITS = (-1.0, 1.0)
NO_BOUNDS = np.zeros((0, 2))


def distortion(
    points: Float[Array, "n_points dim_in"],
    images: Float[Array, "n_points dim_out"],
    bounds: Float[Array | np.ndarray, "n_bounds 2"] = NO_BOUNDS,
    limits: tuple[float, float] = LIMITS,
    *,
    measure: Measure | str = Measure.squared_distance,
    block: int = 500,
    n_bins: int = 512,
    near_capacity: int = 1024,
) -> Stream:
    """The distortion of every pair ``a < b``, in memory ``O(block² + N (dim_in + dim_out))``.

    By default that of squared distances, ``‖f(x) − f(y)‖² / ‖x − y‖² − 1``, as in the lemma;
    ``measure="distance"`` is that of distances.
    """
    check_range("bounds", bounds, "[-inf, inf]")
    points, images = _as_array(points), _as_array(images)
    rows = jnp.asarray(bounds)
    for name, z in (("points", points), ("images", images)):
        if z.ndim != 2:
            raise ValueError(f"{name} has shape {z.shape}, must be [n_points, dim]: a row for each")
    if len(points) < 2:
        raise ValueError(f"points has {len(points)} rows, must have at least two to make a pair")
    check_points(points, images)
    limits = _check_histogram(limits, n_bins)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise ValueError(f"bounds has shape {rows.shape}, must be rows (lower, upper) [n, 2]")
    near_capacity, block = whole("near_capacity", near_capacity, 0), whole("block", block, 1)
    measure = choice("measure", Measure, measure)
    points, images = _not_folded(points), _not_folded(images)
    return _all_pairs(points, images, rows, limits, measure, block, n_bins, near_capacity)


def _as_array(z: Any) -> Any:
    """Points in lists as an array; arrays and tracers as they are."""
    return z if hasattr(z, "shape") else np.asarray(z)


@compiled("limits", "measure", "block", "n_bins", "near_capacity")
def _all_pairs(
    points: Float[Array, "n_points dim_in"],
    images: Float[Array, "n_points dim_out"],
    bounds: Float[Array, "n_bounds 2"],
    limits: tuple[float, float],
    measure: Measure,
    block: int,
    n_bins: int,
    near_capacity: int,
) -> Stream:
    n_points = points.shape[0]
    block = min(block, n_points)
    tiles = upper_tiles(n_points, block)
    everything = make_block(pad_rows(points, block), pad_rows(images, block))
    if measure is Measure.angle:
        everything = normalised(everything)
    edges = jnp.array(limits)

    def step(stream: Stream, tile: Int[Array, "2"]) -> tuple[Stream, None]:
        row, column = tile[0], tile[1]
        a = Block(*(block_of(z, row, block) for z in everything))
        b = Block(*(block_of(z, column, block) for z in everything))
        mask = tile_mask(row, column, block, n_points)
        found = tile_values(measure, a, b)
        near = found.near & mask
        valid, zero = mask & ~found.zero & ~near, mask & found.zero
        resolvable = measure in (*DISTANCES, Measure.angle) and near_capacity > 0
        missed = jnp.zeros((), int) if resolvable else near.sum(0).sum()
        stream = update(stream, found.value, valid, zero, bounds, edges, missed)
        if not resolvable:
            return stream, None
        return jax.lax.cond(
            near.any(0).any(),
            lambda s: _resolve(s, near, a, b, measure, bounds, edges, near_capacity),
            lambda s: s,
            stream,
        ), None

    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(step, empty_stream(bounds.shape[0], n_bins), order)[0]


def sampled_distortion(
    key: Key[Array, ""],
    points: Float[Array, "n_points dim_in"],
    images: Float[Array, "n_points dim_out"],
    bounds: Float[Array, "n_bounds 2"],
    limits: tuple[float, float] = LIMITS,
    *,
    n_pairs: int,
    measure: Measure | str = Measure.squared_distance,
    block: int = 1024,
    n_bins: int = 512,
) -> Stream:
    """The distortion of a random subset: ``n_pairs`` independent uniform pairs of distinct indices.
    """
    n_points = points.shape[0]
    check_points(points, images)
    limits = _check_histogram(limits, n_bins)
    check_range("n_pairs", n_pairs, "[1, inf)")
    check_range("block", block, "[1, inf)")
    if n_points < 2:
        raise ValueError(f"n_points={n_points} must be at least 2 to make a pair")
    measure = choice("measure", Measure, measure)
    return _sampled_pairs(key, points, images, bounds, limits, n_pairs, measure, block, n_bins)


@compiled("limits", "n_pairs", "measure", "block", "n_bins")
def _sampled_pairs(
    key: Key[Array, ""],
    points: Float[Array, "n_points dim_in"],
    images: Float[Array, "n_points dim_out"],
    bounds: Float[Array, "n_bounds 2"],
    limits: tuple[float, float],
    n_pairs: int,
    measure: Measure,
    block: int,
    n_bins: int,
) -> Stream:
    n_points = points.shape[0]
    edges = jnp.array(limits)
    n_blocks = -(-n_pairs // block)
    first = jax.random.randint(derive(key, "first"), (n_blocks, block), 0, n_points)
    # Uniform on the other indices: skip over the first one.
    other = jax.random.randint(derive(key, "second"), (n_blocks, block), 0, n_points - 1)
    second = other + (other >= first)
    valid = (jnp.arange(n_blocks * block) < n_pairs).reshape(n_blocks, block)

    def step(
        stream: Stream, chunk: tuple[Int[Array, " k"], Int[Array, " k"], Bool[Array, " k"]]
    ) -> tuple[Stream, None]:
        i, j, valid = chunk
        a, b = make_block(points[i], images[i]), make_block(points[j], images[j])
        found = pair_values(measure, a, b)
        return update(
            stream,
            found.value[None],
            (valid & ~found.zero)[None],
            (valid & found.zero)[None],
            bounds,
            edges,
        ), None

    start = empty_stream(bounds.shape[0], n_bins)
    return jax.lax.scan(step, start, (first, second, valid))[0]


def _resolve(
    stream: Stream,
    near: Bool[Array, "rows columns"],
    a: Block,
    b: Block,
    measure: Measure,
    bounds: Float[Array, "n_bounds 2"],
    edges: Float[Array, "2"],
    capacity: int,
) -> Stream:
    """The nearly equal pairs of a tile again, by direct differences."""
    i, j = jnp.nonzero(near, size=capacity, fill_value=0)
    n_near = near.sum(0).sum()
    listed = jnp.arange(capacity) < n_near
    found = pair_values(measure, Block(*(z[i] for z in a)), Block(*(z[j] for z in b)))
    valid, zero = (listed & ~found.zero)[None], (listed & found.zero)[None]
    missed = jnp.maximum(n_near - capacity, 0)
    return update(stream, found.value[None], valid, zero, bounds, edges, missed)


def _not_folded(points: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """The points, where they are a constant of a user's jit as what the compiler cannot know."""
    traced = isinstance(jnp.zeros(()), jax.core.Tracer)
    constant = not isinstance(points, jax.core.Tracer)
    return jax.lax.optimization_barrier(jnp.asarray(points)) if traced and constant else points


def check_points(points: Float[Array, "n d"], images: Float[Array, "k m"]) -> None:
    """Refuse images without one row for each point, and NaN, for which extremes look valid."""
    if points.shape[0] != images.shape[0]:
        raise ValueError(
            f"points has {points.shape[0]} rows and images {images.shape[0]}; a map gives each "
            "point one image"
        )
    check_range("points", points, "(-inf, inf)")
    check_range("images", images, "(-inf, inf)")


def _check_histogram(limits: tuple[float, float], n_bins: int) -> tuple[float, float]:
    whole("n_bins", n_bins, 0)
    check_range("limits", limits, "(-inf, inf)")
    if np.shape(limits) != (2,) or not limits[0] < limits[1]:
        raise ValueError(f"limits={limits} must be two numbers that increase")
    return float(limits[0]), float(limits[1])
