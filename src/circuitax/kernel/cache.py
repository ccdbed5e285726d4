"""Key-value cache: keys and values of positions already read, for decoding step by step."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.documented import documented
from circuitax.kernel.model import Model


@documented
class LayerCache(NamedTuple):
    """Key-value cache of one layer, of capacity ``n_max``; a `Cache` has a leading axis of layers.

    Attributes:
        keys: As projected: smearing and rotation come after, since both need neighbours or
            positions.
        values: As projected.
    """

    keys: Float[Array, "*n_layers n_heads n_max d_head"]
    values: Float[Array, "*n_layers n_heads n_max d_value"]


@documented
class Cache(NamedTuple):
    """Key-value cache of all layers.

    Attributes:
        layers: Keys and values, with a leading axis of layers.
        length: Number of positions filled, which is the position of the next token.
    """

    layers: LayerCache
    length: Int[Array, ""]


def empty_cache(model: Model, n_max: int) -> Cache:
    """An empty cache of capacity ``n_max``; the caller must not write more positions."""
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
    """One layer's cache with the keys and values of new positions appended."""
    start = (jnp.zeros_like(length), length, jnp.zeros_like(length))
    return LayerCache(
        jax.lax.dynamic_update_slice(cache.keys, k, start),
        jax.lax.dynamic_update_slice(cache.values, v, start),
    )
