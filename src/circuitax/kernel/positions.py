"""Position schemes: vectors added to the stream or to queries and keys only, or rotations.

S2 is the attention chapter (docs/bibliography.md).
"""

from enum import StrEnum

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Positions(StrEnum):
    """Names as written in a config."""

    none = "none"
    learned = "learned"
    sinusoidal = "sinusoidal"
    shortformer = "shortformer"
    shortformer_sinusoidal = "shortformer_sinusoidal"
    rotary = "rotary"

    @property
    def in_stream(self) -> bool:
        return self in (Positions.learned, Positions.sinusoidal)

    @property
    def in_queries_and_keys(self) -> bool:
        return self in (Positions.shortformer, Positions.shortformer_sinusoidal)

    @property
    def needs_table(self) -> bool:
        """Whether the vectors are weights, ``W_pos``."""
        return self in (Positions.learned, Positions.shortformer)

    @property
    def computed_from_width(self) -> bool:
        """Whether the vectors are a fixed function of position and d_model."""
        return self in (Positions.sinusoidal, Positions.shortformer_sinusoidal)


def sinusoidal(
    index: Int[Array, " n_ctx"], d_model: int, dtype: jnp.dtype, base: float = 10_000.0
) -> Float[Array, "n_ctx d_model"]:
    """Fixed position vectors: entry 2i is ``sin(t / base^(2i/d))``, entry 2i+1 the cosine.

    Source: S2, "Positional encodings"; framework paper (added to Q and K inputs there).
    """
    angle = _angles(index, d_model, "d_model", dtype, base)
    pairs = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return pairs.reshape(-1, d_model).astype(dtype)


def rotate(
    x: Float[Array, "n_heads n_ctx d_head"],
    index: Int[Array, " n_ctx"],
    frequencies: Float[Array, " n_pairs"] | None = None,
) -> Float[Array, "n_heads n_ctx d_head"]:
    """Rotary positions: turn each pair (x_2i, x_2i+1) by ``t · frequencies[i]``.

    Source: S2, "Positional encodings" (RoPE); neighbouring pairs as in RoFormer.
    """
    d_head = x.shape[-1]
    if frequencies is None:
        angle = _angles(index, d_head, "d_head", x.dtype, 10_000.0)[None]
    else:
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        angle = (index.astype(dtype)[:, None] * frequencies[None, :])[None]
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turned = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)


def _angles(
    index: Int[Array, " n_ctx"], width: int, name: str, dtype: jnp.dtype, base: float
) -> Float[Array, "n_ctx half"]:
    if width % 2:
        raise ValueError(f"{name}={width} must be even: positions turn pairs of coordinates")
    # In half precision neighbouring positions above 256 would have one angle.
    dtype = jnp.promote_types(dtype, jnp.float32)
    frequency = base ** (-jnp.arange(0, width, 2, dtype=dtype) / width)
    return index.astype(dtype)[:, None] * frequency[None, :]
