"""Sums of paths by order: by the number of heads, of MLPs, and by pairs of heads."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    head_constants,
    head_writes,
    mlp_writes,
)
from circuitax.circuits.paths.groups import carried_back

Carry = tuple[Array, Array]


def mlp_order_streams(frozen: FrozenModel) -> Float[Array, "order n_ctx d_model"]:
    """Contribution of the paths through 0 … n_layers MLPs to the final stream, heads inside.

    ``c_k ← c_k (I + Σ_h A^h ⊗ W_OV^h)``, then ``c_k ← c_k + c_{k-1} M_l``, layer by layer. What
    an MLP leaves at a stream of zeros has order 1, biases of heads have order 0.

    Args:
        frozen: The frozen model of one text, dressed, whose MLPs read what heads wrote.

    Raises:
        ValueError: If it is not dressed.
    """
    maps = frozen.maps
    if maps is None:
        raise ValueError("frozen.maps is None: no path of this model runs through MLPs")
    n_layers = frozen.A.shape[0]

    def step(streams: Array, layer: Int[Array, ""]) -> tuple[Array, None]:
        written = head_writes(frozen, layer, streams, summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams = streams + written
        if frozen.b_O is not None:
            streams = streams.at[0].add(frozen.b_O[layer])
        through = mlp_writes(maps, layer, streams[:-1])
        return streams.at[1:].add(through).at[1].add(maps.constant[layer]), None

    streams = jnp.zeros((n_layers + 1, *frozen.tokens.shape), frozen.tokens.dtype)
    streams = streams.at[0].set(frozen.embedding)
    return jax.lax.scan(step, streams, jnp.arange(n_layers))[0]


def streams_past_heads(frozen: FrozenModel) -> Float[Array, "n_layers n_ctx d_model"]:
    """Input of each layer past no head: a token's embedding behind the MLPs before."""

    def step(alone: Array, layer: Int[Array, ""]) -> tuple[Array, Array]:
        return after_layer(frozen, layer, alone, alone, constants=False)[0], alone

    return jax.lax.scan(step, frozen.embedding, jnp.arange(frozen.A.shape[0]))[1]


def two_head_paths(
    frozen: FrozenModel, position: int, direction: Float[Array, " d_model"]
) -> Float[Array, "second_layer second_head first_layer first_head"]:
    """Paths from tokens through two heads, summed over the positions they read.

    Args:
        frozen: The frozen model of one text, dressed.
        position: Where the logit is read.
        direction: As in `path_groups`.

    Returns:
        The value of each pair; 0 where the first head is not in an earlier layer.
    """
    n_layers, n_heads = frozen.A.shape[:2]
    ends = carried_back(frozen, position, direction, through_heads=False).written[:, position]

    def step(carry: Carry, layer: Int[Array, ""]) -> tuple[Carry, Array]:
        alone, streams = carry
        reads = jnp.einsum("hdk,hke,e->hd", frozen.W_V[layer], frozen.W_O[layer], ends[layer])
        read = jnp.einsum("isd,hd->his", streams, reads)
        values = jnp.einsum("hs,his->hi", frozen.A[layer, :, position], read)
        written = head_writes(frozen, layer, alone)
        streams, written = after_layer(frozen, layer, streams, written, constants=False)
        alone, _ = after_layer(frozen, layer, alone, alone, constants=False)
        streams = jax.lax.dynamic_update_slice_in_dim(streams, written, layer * n_heads, axis=0)
        return (alone, streams), values

    streams = jnp.zeros((n_layers * n_heads, *frozen.embedding.shape), frozen.embedding.dtype)
    start = frozen.embedding, streams
    values = jax.lax.scan(step, start, jnp.arange(n_layers))[1]
    return values.reshape(n_layers, n_heads, n_layers, n_heads)
