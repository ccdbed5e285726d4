"""Distortion of a point cloud by a map: over all pairs in tiles, or over a random subset.

Each measure comes in two forms. One takes all pairs of two blocks of points, from Gram matrices,
and is fast; the other takes listed pairs, from the points themselves, and loses nothing to
cancellation. Both return the values and mark the pairs that have none.
"""

import enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.checks import check_range, choice, whole
from circuitax.kernel.compiled import compiled
from circuitax.projection.stream import (
    Stream,
    block_of,
    empty_stream,
    gram,
    pad_rows,
    tile_mask,
    update,
    upper_tiles,
)


class Measure(enum.Enum):
    """Quantity compared before and after a map f."""

    squared_distance = "squared_distance"  # ‖f(x) − f(y)‖² / ‖x − y‖² − 1
    distance = "distance"  # ‖f(x) − f(y)‖ / ‖x − y‖ − 1
    inner = "inner"  # (⟨f(x), f(y)⟩ − ⟨x, y⟩) / (‖x‖ ‖y‖)
    cosine = "cosine"  # cos θ_f − cos θ
    angle = "angle"  # θ_f − θ, radians


DISTANCES = (Measure.squared_distance, Measure.distance)


class Block(NamedTuple):
    """Rows of points and their images, with squared norms."""

    x: Float[Array, "rows dim_in"]
    y: Float[Array, "rows dim_out"]
    x_sq: Float[Array, " rows"]
    y_sq: Float[Array, " rows"]


class Tile(NamedTuple):
    """Values of a tile; undefined pairs; pairs beyond the resolution of the Gram form."""

    value: Float[Array, "*pairs"]
    zero: Bool[Array, "*pairs"]
    near: Bool[Array, "*pairs"]


def make_block(x: Float[Array, "rows dim_in"], y: Float[Array, "rows dim_out"]) -> Block:
    """A block with its squared norms."""
    return Block(x, y, (x * x).sum(1), (y * y).sum(1))


def normalised(block: Block) -> Block:
    """Points and images scaled to unit length; zero vectors stay zero."""

    def unit(z: Float[Array, "r d"], z_sq: Float[Array, " r"]) -> Float[Array, "r d"]:
        return z * _inverse_root(z_sq)[:, None]

    return make_block(unit(block.x, block.x_sq), unit(block.y, block.y_sq))


def tile_values(measure: Measure, a: Block, b: Block) -> Tile:
    """A measure on all pairs of two blocks, from Gram matrices.

    A squared distance ``‖x‖² + ‖y‖² − 2⟨x, y⟩`` below a hundredth of the first two terms keeps too
    few digits of float32 and is marked ``near``; so is an angle whose sine is below a tenth. For
    ``angle`` the blocks must be `normalised`.
    """
    g, h = gram(a.x, b.x), gram(a.y, b.y)
    if measure in DISTANCES:
        x_sum = a.x_sq[:, None] + b.x_sq[None, :]
        y_sum = a.y_sq[:, None] + b.y_sq[None, :]
        x_dist, y_dist = x_sum - 2 * g, y_sum - 2 * h
        near = x_dist <= _near(x_sum) * x_sum
        value = _stretch(measure, y_dist / jnp.where(near, 1, x_dist))
        return Tile(value, jnp.zeros_like(near), near)
    if measure is Measure.angle:
        zero = _any_zero(a, b)
        near = (jnp.maximum(jnp.abs(g), jnp.abs(h)) >= 1 - _near(g)) & ~zero
        value = _angle(2 - 2 * h, 2 + 2 * h) - _angle(2 - 2 * g, 2 + 2 * g)
        return Tile(value, zero, near)
    x_inverse = _inverse_root(a.x_sq)[:, None] * _inverse_root(b.x_sq)[None, :]
    if measure is Measure.inner:
        zero = (a.x_sq == 0)[:, None] | (b.x_sq == 0)[None, :]
        return Tile((h - g) * x_inverse, zero, jnp.zeros_like(zero))
    y_inverse = _inverse_root(a.y_sq)[:, None] * _inverse_root(b.y_sq)[None, :]
    zero = _any_zero(a, b)
    return Tile(h * y_inverse - g * x_inverse, zero, jnp.zeros_like(zero))


def pair_values(measure: Measure, a: Block, b: Block) -> Tile:
    """A measure on the pairs ``(a_k, b_k)``, by direct differences; no pair is marked ``near``."""
    none = jnp.zeros(a.x_sq.shape, bool)
    if measure in DISTANCES:
        x_dist, y_dist = ((a.x - b.x) ** 2).sum(1), ((a.y - b.y) ** 2).sum(1)
        zero = x_dist == 0
        return Tile(_stretch(measure, y_dist / jnp.where(zero, 1, x_dist)), zero, none)
    if measure is Measure.inner:
        zero = (a.x_sq == 0) | (b.x_sq == 0)
        error = (a.y * b.y).sum(1) - (a.x * b.x).sum(1)
        return Tile(error * _inverse_root(a.x_sq) * _inverse_root(b.x_sq), zero, none)
    a, b = normalised(a), normalised(b)
    zero = (a.x_sq == 0) | (b.x_sq == 0) | (a.y_sq == 0) | (b.y_sq == 0)
    if measure is Measure.cosine:
        return Tile((a.y * b.y).sum(1) - (a.x * b.x).sum(1), zero, none)

    def angle(p: Float[Array, "k d"], q: Float[Array, "k d"]) -> Float[Array, " k"]:
        return _angle(((p - q) ** 2).sum(1), ((p + q) ** 2).sum(1))

    return Tile(angle(a.y, b.y) - angle(a.x, b.x), zero, none)


def _stretch(measure: Measure, ratio: Float[Array, "..."]) -> Float[Array, "..."]:
    """A ratio of squared distances, or its root, less one; rounding may leave it below 0."""
    return (ratio if measure is Measure.squared_distance else jnp.sqrt(jnp.maximum(ratio, 0))) - 1


def _near(x: Float[Array, "..."]) -> float:
    """Relative squared distance below which the Gram form is too inexact: 1e-2, or 1e-6."""
    return 1e-2 if jnp.finfo(x.dtype).bits <= 32 else 1e-6


def _inverse_root(x_sq: Float[Array, "..."]) -> Float[Array, "..."]:
    return jnp.where(x_sq > 0, 1 / jnp.sqrt(jnp.where(x_sq > 0, x_sq, 1)), 0)


def _any_zero(a: Block, b: Block) -> Bool[Array, "rows columns"]:
    return ((a.x_sq == 0) | (a.y_sq == 0))[:, None] | ((b.x_sq == 0) | (b.y_sq == 0))[None, :]


def _angle(minus_sq: Float[Array, "..."], plus_sq: Float[Array, "..."]) -> Float[Array, "..."]:
    """Kahan's angle of unit vectors, ``2 atan2(‖u − v‖, ‖u + v‖)``, exact at 0 and π too."""
    return 2 * jnp.arctan2(jnp.sqrt(jnp.maximum(minus_sq, 0)), jnp.sqrt(jnp.maximum(plus_sq, 0)))


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

    For many maps, use ``jax.vmap`` over ``images``: the shared ``points`` have their distances
    computed once. Pairs that are too close for the Gram form (see `measures.tile_values`) are
    computed again by direct differences, up to ``near_capacity`` in each tile; ``n_unresolved``
    counts the rest. ``n_zero`` counts the pairs at distance zero, which enter nothing else. Under
    jit, NaN is counted here and refused by `summarise`.

    Args:
        points: At least two, finite, centred by the caller if their mean is far from 0.
        images: Under the map, one for each point, finite.
        bounds: Rows ``(lower, upper)`` on the measure; failures are counted on each side.
        limits: Range of the histogram, increasing.
        measure: What is compared; a `Measure` or its name.
        block: Side of a tile, at least 1.
        n_bins: Cells of the histogram, whose width is the resolution of quantiles; 0 for none.
        near_capacity: Nearly equal pairs resolved in each tile, at least 0; 0 is for clouds known
            to have none, and compiles three times faster.

    Raises:
        ValueError: If there are fewer than two points, points and images differ in number or are
            not finite, or an argument is out of range.
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
