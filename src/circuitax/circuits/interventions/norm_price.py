"""The price of a linearised norm: 1/σ replaced by one constant for each read.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.model import Model, check_one_member


class NormPrice(NamedTuple):
    """Mean next-token losses in nats.

    Attributes:
        loss: Loss of the model.
        constant: Loss with every norm's divisor at its mean over positions and texts.
        price: Their difference: what it costs to ignore that the divisor varies.
    """

    loss: Float[Array, ""]
    constant: Float[Array, ""]
    price: Float[Array, ""]


def norm_price(model: Model, texts: Int[Array, "*batch n_ctx"]) -> NormPrice:
    """The loss when every norm divides by a constant, minus the loss.

    Source: S0 section 2.3, assumption 3.
    """
    check_one_member(model)
    if texts.ndim != 2:
        raise ValueError(f"texts has shape {texts.shape}, must be a batch of texts [batch, n_ctx]")

    def losses(text: Array, scales: NormScales) -> Array:
        logits, _ = forward(model, text, Interventions(scales=scales))
        return next_token_losses(logits, text)

    def scales_of(text: Array) -> NormScales:
        return forward(model, text)[1].scales

    scales = jax.vmap(scales_of)(texts)
    means = jax.tree.map(
        lambda x: jnp.broadcast_to(x.mean(axis=(0, -1), keepdims=True)[0], x.shape[1:]), scales
    )
    loss = jax.vmap(losses, in_axes=(0, None))(texts, NormScales()).mean()
    constant = jax.vmap(losses, in_axes=(0, None))(texts, means).mean()
    return NormPrice(loss, constant, constant - loss)
