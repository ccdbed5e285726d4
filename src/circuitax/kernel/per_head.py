"""Attention weights written out for every query head, as single-head analyses read them.

Grouped heads share keys and values, gains of QK-norm stand between a map and the scores, and a
norm of what attention writes has a gain after ``W_O``. All of this is linear and goes into the maps
here, once, so that no analysis has to know about it.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.model import Model
from circuitax.kernel.weights import HeadStack, NormWeights


def per_head(model: Model) -> HeadStack:
    """One map of each kind for every query head; the same arrays where no heads share weights."""
    heads = spread_groups(model.blocks.attention, model.n_heads)
    if heads.q_gain is not None and heads.k_gain is not None:
        q, k = heads.q_gain[..., None, :], heads.k_gain[..., None, :]
        heads = heads._replace(
            W_Q=heads.W_Q * q[..., None, :],
            W_K=heads.W_K * k[..., None, :],
            b_Q=None if heads.b_Q is None else heads.b_Q * q,
            b_K=None if heads.b_K is None else heads.b_K * k,
            q_gain=None,
            k_gain=None,
        )
    after: NormWeights | None = model.blocks.attention_post_norm
    if after is not None:
        heads = heads._replace(W_O=heads.W_O * after.gain[..., None, None, :])
    return heads


def spread_groups(heads: HeadStack, n_heads: int) -> HeadStack:
    """Keys and values repeated for the query heads of each group."""
    if heads.W_K.shape[-3] == n_heads:
        return heads
    return heads._replace(
        W_K=repeat_heads(heads.W_K, n_heads, axis=-3),
        W_V=repeat_heads(heads.W_V, n_heads, axis=-3),
        b_K=None if heads.b_K is None else repeat_heads(heads.b_K, n_heads, axis=-2),
        b_V=None if heads.b_V is None else repeat_heads(heads.b_V, n_heads, axis=-2),
    )


def repeat_heads(x: Float[Array, "*shape"], n_heads: int, axis: int) -> Float[Array, "*out"]:
    """Entry ``h // (n_heads / size)`` of an axis for every h below ``n_heads``."""
    size = x.shape[axis]
    return x if size == n_heads else jnp.repeat(x, n_heads // size, axis=axis)
