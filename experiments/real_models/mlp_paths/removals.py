"""Removal of tokens and of paths for real: nothing is held, and everything later reacts."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model
from experiments.real_models.mlp_paths.orders import streams_past_heads
from experiments.real_models.mlp_paths.scores import over_mean


@jax.jit
def without_tokens(
    model: Model, text: Int[Array, " n_ctx"], token: int, sources: Int[Array, " n"]
) -> Float[Array, " n"]:
    """The logit of a token with the embedding of one position each replaced by their mean."""
    n_layers, n_ctx = model.n_layers, text.shape[0]
    mean = jnp.asarray(model.W_E).mean(axis=0)
    keep = jnp.ones((n_layers + 1, n_ctx), mean.dtype)
    add = jnp.zeros((n_layers + 1, n_ctx, mean.size), mean.dtype)

    def logit(source: Array) -> Array:
        edit = Interventions(
            stream_keep=keep.at[0, source].set(0.0), stream_add=add.at[0, source].set(mean)
        )
        return over_mean(forward(model, text, edit)[0][-1], token)

    return jax.lax.map(logit, sources)


@jax.jit
def without_paths(
    model: Model,
    frozen: FrozenModel,
    text: Int[Array, " n_ctx"],
    token: int,
    paths: Int[Array, "n several 3"],
) -> Float[Array, " n"]:
    """The logit of a token without several paths through one head, all removed at once.

    What the head writes at the last position loses what it has of one token, which came past
    no other head.

    Args:
        model: The model.
        frozen: Of its run on the text.
        text: Token ids.
        token: Whose logit, over the mean, is read at the last position.
        paths: Layer, head and source position.
    """
    alone = streams_past_heads(frozen)
    nothing = jnp.zeros((*frozen.A.shape[:3], alone.shape[-1]), alone.dtype)

    def logit(several: Array) -> Array:
        layer, head, source = several.T
        values = jnp.einsum("pd,pdk->pk", alone[layer, source], frozen.W_V[layer, head])
        written = jnp.einsum("pk,pkd->pd", values, frozen.W_O[layer, head])
        written = written * frozen.A[layer, head, -1, source][:, None]
        edit = Interventions(head_add=nothing.at[layer, head, -1].add(-written))
        return over_mean(forward(model, text, edit)[0][-1], token)

    return jax.lax.map(logit, paths)
