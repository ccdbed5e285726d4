"""Attention by offset, whatever the tokens: measured on texts, and computed from scores."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def score_kernel(scores: Float[Array, "*heads n_offsets"]) -> Float[Array, "*heads n_offsets"]:
    """The attention of a head whose scores depend on the offset alone, ``softmax_Δ s(Δ)``."""
    return jax.nn.softmax(scores, axis=-1)


def measured_kernel(
    patterns: Float[Array, "*heads n_ctx n_ctx"], n_offsets: int, *, first: bool = False
) -> Float[Array, "*heads n_offsets"]:
    """Mean attention by offset ``Δ = t - s``, over all positions that have every offset.

    Without the first position, where many heads leave what they do not need, it is
    ``Σ_t A_{t,t-Δ} / Σ_t Σ_{s>0} A_ts``.
    """
    n_ctx = patterns.shape[-1]
    if not 1 <= n_offsets < n_ctx:
        raise ValueError(f"n_offsets={n_offsets} must be from 1 to {n_ctx - 1}")
    rows = patterns[..., n_offsets:, :]
    dest = jnp.arange(n_offsets, n_ctx)
    back = jnp.stack([rows[..., dest - n_offsets, dest - i] for i in range(n_offsets)], axis=-1)
    mass = rows.sum(axis=-1) if first else rows[..., 1:].sum(axis=-1)
    return back.sum(axis=-2) / mass.sum(axis=-1)[..., None]
