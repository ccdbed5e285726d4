"""Four measures of a map's distortion of a pair: distance, inner product, cosine or angle.

Each measure comes in two forms. One takes all pairs of two blocks of points, from Gram matrices,
and is fast; the other takes listed pairs, from the points themselves, and loses nothing to
cancellation. Both return the values and mark the pairs that have none.
"""

import enum
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.projection.tiles import gram


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
    """Kahan's angle of unit vectors, ``2 atan2(‖u − v‖, ‖u + v‖)``, which is exact at 0 and π too.
    """
    return 2 * jnp.arctan2(jnp.sqrt(jnp.maximum(minus_sq, 0)), jnp.sqrt(jnp.maximum(plus_sq, 0)))
