"""Measurements on windows of real text: terms and distances of an attention-only model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.losses import repeated_pairs, term_losses
from circuitax.circuits.weights.heads import position_blocks, positional_share
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.model import Model
from circuitax.kernel.run import run


def window_readings(
    model: Model, windows: Int[Array, "batch n_ctx"], offsets: int
) -> dict[str, Array]:
    """Losses of terms, and attention by distance; means over windows.

    ``order_loss`` and ``first_order_loss`` are those of `term_losses.TermLosses`; ``attention`` is
    over the later half of the window, ``[layer, head, offset]``; ``positional`` is
    `heads.positional_share` of the first layer.
    """
    n_ctx = windows.shape[1]

    def one(text: Array) -> dict[str, Array]:
        seen = run(model, text)
        terms = term_losses(seen)
        late = seen.trace.patterns[:, :, n_ctx // 2 :]
        dest = jnp.arange(n_ctx // 2, n_ctx)
        back = jnp.stack([late[:, :, dest - n_ctx // 2, dest - k] for k in range(offsets)], -1)
        return {
            "order_loss": terms.order.mean(axis=1),
            "first_order_loss": terms.first_order.mean(axis=1),
            "attention": back.mean(axis=2),
        }

    found = jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, windows))
    return found | {"positional": positional_share(position_blocks(model, n_ctx))[0]}


def order_losses(model: Model, windows: Int[Array, "batch n_ctx"]) -> Float[Array, " order"]:
    """Mean losses with paths of order 0, at most 1, and so on, patterns frozen."""

    def one(text: Array) -> Array:
        return term_losses(run(model, text)).order.mean(axis=1)

    return jax.lax.map(one, windows).mean(axis=0)


def induction_on_text(
    model: Model, windows: Int[Array, "batch n_ctx"], exam: Int[Array, "text n_ctx"]
) -> dict[str, Array]:
    """Losses of one member on windows of text, and its heads' scores on random repeats."""
    scores = induction_scores(model, exam)
    losses = jax.lax.map(lambda text: next_token_losses(forward(model, text)[0], text), windows)
    return pair_losses(losses, repeated_pairs(windows)) | {
        "prefix": scores.prefix,
        "previous": scores.previous,
        "chance": scores.chance,
    }


def pair_losses(losses: Array, seen: Array) -> dict[str, Array]:
    """Means over all tokens, over tokens that end a pair seen before, and over the others."""
    return {
        "loss": losses.mean(),
        "loss_repeated": jnp.where(seen, losses, 0).sum() / seen.sum(),
        "loss_new": jnp.where(seen, 0, losses).sum() / (~seen).sum(),
    }
