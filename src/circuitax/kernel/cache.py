"""Keys and values of positions already read, so that a longer text is continued step by step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.model import Model


class LayerCache(NamedTuple):
    """Room for ``n_max`` keys and values; a `Cache` has an axis of layers in front of them.

    Attributes:
        keys: As projected: smearing and rotation come after, since both need neighbours or
            positions.
    """

    keys: Float[Array, "*n_layers n_heads n_max d_head"]
    values: Float[Array, "*n_layers n_heads n_max d_value"]


class Cache(NamedTuple):
    """What every layer has read so far.

    Attributes:
        length: Number of positions filled, which is the position of the next token.
    """

    layers: LayerCache
    length: Int[Array, ""]


def empty_cache(model: Model, n_max: int) -> Cache:
    """A cache for at most ``n_max`` positions; the caller must not write more.

    Raises:
        ValueError: If ``n_max`` is less than 1.
    """
    if n_max < 1:
        raise ValueError(f"n_max={n_max} must be at least 1")
    W_K, W_V = model.blocks.attention.W_K, model.blocks.attention.W_V
    d_head = W_K.shape[-1]
    # One row for each query head: an edit of keys may differ between the heads of a group.
    shape = (model.n_layers, model.n_heads, n_max)
    return Cache(
        LayerCache(
            jnp.zeros((*shape, d_head), W_K.dtype), jnp.zeros((*shape, W_V.shape[-1]), W_V.dtype)
        ),
        jnp.zeros((), jnp.int32),
    )


def append(
    cache: LayerCache,
    length: Int[Array, ""],
    k: Float[Array, "n_heads n_ctx d_head"],
    v: Float[Array, "n_heads n_ctx d_value"],
) -> LayerCache:
    """One layer's cache with the keys and values of new positions after the old ones."""
    start = (jnp.zeros_like(length), length, jnp.zeros_like(length))
    return LayerCache(
        jax.lax.dynamic_update_slice(cache.keys, k, start),
        jax.lax.dynamic_update_slice(cache.values, v, start),
    )
