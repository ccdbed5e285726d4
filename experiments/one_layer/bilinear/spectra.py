"""Bilinear MLPs by their weights: what few eigenvectors keep."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.circuits.weights.mlps import as_eigenvectors, bilinear_mlps, kept_eigenvectors
from circuitax.kernel.model import Model
from circuitax.kernel.weights import MLPWeights
from circuitax.training.language import text_losses

RANDOM = 4  # eigenvectors of each direction that the random choices keep


class KeptLosses(NamedTuple):
    """Held-out losses with all, none and some eigenvectors of every MLP, nats a token."""

    whole: Float[Array, ""]
    removed: Float[Array, ""]
    kept: Float[Array, " kept"]
    random: Float[Array, " draw"]


def kept_losses(
    model: Model,
    windows: Int[Array, "window n_ctx"],
    keys: Key[Array, " draw"],
    kept: tuple[int, ...],
) -> KeptLosses:
    """Losses where each output direction of each MLP has its largest eigenvectors alone.

    The random choices keep `RANDOM` of each direction, whatever their eigenvalues.
    """
    mlp = bilinear_mlps(model)
    whole, d = jax.lax.map(as_eigenvectors, mlp), model.d_model

    def loss(mlp: MLPWeights) -> Array:
        other = model.replace(blocks=model.blocks._replace(mlp=mlp))
        return text_losses(other, windows).mean()

    def of_places(places: Int[Array, "layer direction chosen"]) -> Array:
        return loss(jax.vmap(kept_eigenvectors)(whole, places))

    def first(rank: int) -> Array:
        return of_places(jnp.broadcast_to(jnp.arange(rank), (len(mlp.W_out), d, rank)))

    def drawn(key: Array) -> Array:
        order = jnp.argsort(jax.random.uniform(key, (len(mlp.W_out), d, d)), axis=-1)
        return of_places(order[..., :RANDOM])

    removed = loss(mlp._replace(W_out=jnp.zeros_like(mlp.W_out)))
    ranks = jnp.stack([first(rank) for rank in kept])
    return KeptLosses(loss(mlp), removed, ranks, jax.lax.map(drawn, keys))
