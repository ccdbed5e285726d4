"""What a model does with repeated texts: its losses, and what each of its heads attends to."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.attention.detectors import detect, prefix_mask, previous_mask
from circuitax.kernel.forward import forward
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.losses import token_losses
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.tokens import token_ids


class InductionScores(NamedTuple):
    """Means over texts; scores are shares of attention, losses are nats."""

    loss_by_position: Float[Array, " n_losses"]
    """Entry t is the loss on token t + 1."""
    prefix: Float[Array, "n_layers n_heads"]
    """Attention to positions that follow an earlier occurrence of the present token."""
    previous: Float[Array, "n_layers n_heads"]
    """Attention to the position before."""
    chance: Float[Array, ""]
    """The prefix score of uniform attention."""


def induction_scores(model: Model, texts: Any) -> InductionScores:
    """Losses, prefix-matching and previous-token scores of one model on repeated texts.

    Args:
        model: One model, not an ensemble; vmap over its members.
        texts: Random texts that repeat themselves, best of distinct symbols, so that only one
            earlier position matches; ``[batch, n_ctx]``, at least one of two tokens.

    Raises:
        ValueError: If the model is an ensemble, or ``texts`` is not a batch of texts.

    Source: induction-heads paper, evaluators "prefix matching" and "previous token".
    """
    check_one_member(model)
    texts = token_ids(texts, model.d_vocab, batch=True)
    if texts.ndim != 2 or texts.shape[1] < 2:
        raise ValueError(
            f"texts has shape {texts.shape}, must be [batch, n_ctx], of two tokens or more each"
        )
    logits, trace = jax.vmap(lambda text: forward(model, text))(texts)
    found = jax.vmap(lambda A, text: detect(A, prefix_mask(text)))(trace.patterns, texts)
    before = jax.vmap(lambda A, text: detect(A, previous_mask(text)).score)(trace.patterns, texts)
    weight = found.n_dest.astype(logits.dtype)
    weight = safe_divide(weight, jnp.broadcast_to(weight.sum(), weight.shape))
    return InductionScores(
        token_losses(logits, texts).mean(axis=0),
        jnp.einsum("b,blh->lh", weight, found.score),
        before.mean(axis=0),
        weight @ found.null,
    )
