"""Measurements on windows of real text: terms, ablations, distances of an attention-only model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.patching import ablated_metrics, each_component
from circuitax.circuits.term_losses import term_losses
from circuitax.circuits.weights.heads import position_blocks, positional_share
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.model import Model
from circuitax.kernel.run import run


def window_readings(
    model: Model, windows: Int[Array, "batch n_ctx"], offsets: int
) -> dict[str, Array]:
    """Losses of terms, losses without each head, and attention by distance.

    Args:
        model: One attention-only model with position vectors, not an ensemble.
        windows: Texts of one length.
        offsets: Distances at which attention is averaged, from the present token back; from 1 to
            half of ``n_ctx``.

    Returns:
        Means over windows and positions. ``loss``; ``order_loss`` and ``first_order_loss`` as in
        `term_losses.TermLosses`; ``ablated`` and ``ablated_preserving``, the loss without each head
        when later layers react and when patterns stay, ``[n_layers, n_heads]``; ``attention`` at
        each distance, ``[n_layers, n_heads, offset]``, over the later half of the window; and
        ``positional``, `heads.positional_share` of the first layer.

    Raises:
        ValueError: If the model is an ensemble, has an MLP or no position vectors, or ``offsets``
            is out of range.
    """
    n_ctx = windows.shape[1]
    if not 1 <= offsets <= n_ctx // 2:
        raise ValueError(f"offsets={offsets} must be from 1 to half of n_ctx={n_ctx}")
    cells = each_component(model)
    shape = cells.heads.shape[1:]

    def one(text: Array) -> dict[str, Array]:
        seen = run(model, text)
        terms = term_losses(seen)

        def loss(logits: Array) -> Array:
            return next_token_losses(logits, text).mean()

        late = seen.trace.patterns[:, :, n_ctx // 2 :]
        dest = jnp.arange(n_ctx // 2, n_ctx)
        back = jnp.stack([late[:, :, dest - n_ctx // 2, dest - k] for k in range(offsets)], -1)
        reacting = ablated_metrics(model, text, cells, loss)
        preserving = ablated_metrics(model, text, cells, loss, preserved=seen.trace)
        return {
            "order_loss": terms.order.mean(axis=1),
            "first_order_loss": terms.first_order.mean(axis=1),
            "loss": loss(seen.logits),
            "ablated": reacting.reshape(shape),
            "ablated_preserving": preserving.reshape(shape),
            "attention": back.mean(axis=2),
        }

    found = jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, windows))
    return found | {"positional": positional_share(position_blocks(model, n_ctx))[0]}


def order_losses(model: Model, windows: Int[Array, "batch n_ctx"]) -> Float[Array, " order"]:
    """Mean losses with paths of order 0, at most 1, and so on, patterns frozen.

    Args:
        model: One attention-only model, not an ensemble.
        windows: Texts of one length.

    Raises:
        ValueError: If the model is an ensemble or has an MLP.
    """

    def one(text: Array) -> Array:
        return term_losses(run(model, text)).order.mean(axis=1)

    return jax.lax.map(one, windows).mean(axis=0)
