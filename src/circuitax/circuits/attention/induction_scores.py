"""Induction scores on repeated texts: a model's losses, and its heads' prefix matching."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.attention.detectors import detect, prefix_mask, previous_mask
from circuitax.display.tables import NumberTable
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward, next_token_losses, token_ids
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.shown import known, largest, tabled


@tabled
@documented
class InductionScores(NamedTuple):
    """Means over texts; scores are shares of attention, losses are nats.

    Attributes:
        loss_by_position: Entry t is the loss on token t + 1.
        prefix: Attention to positions that follow an earlier occurrence of the present token.
        previous: Attention to the position before.
        chance: The prefix score of uniform attention.
    """

    loss_by_position: Float[Array, " n_losses"]
    prefix: Float[Array, "n_layers n_heads"]
    previous: Float[Array, "n_layers n_heads"]
    chance: Float[Array, ""]

    def _table(self) -> NumberTable | None:
        if np.ndim(self.prefix) != 2 or not known(*self):
            return None
        scores = np.stack([self.prefix, self.previous], axis=-1)
        rows = [(f"head {l}.{h}", scores[l, h]) for l, h in largest(scores.max(axis=-1))]
        loss = float(np.mean(self.loss_by_position))
        title = f"InductionScores: loss {loss:.4g} nats, chance {float(self.chance):.4g}"
        return NumberTable(title, ("prefix", "previous"), rows)


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
    texts = token_ids(texts, model.d_vocab, batch=True, name="texts")
    if texts.ndim != 2 or texts.shape[1] < 2:
        raise ValueError(
            f"texts has shape {texts.shape}, must be [batch, n_ctx], of two tokens or more each"
        )
    return _scores(model, texts)


@compiled()
def _scores(model: Model, texts: Int[Array, "batch n_ctx"]) -> InductionScores:
    logits, trace = jax.vmap(lambda text: forward(model, text))(texts)
    found = jax.vmap(lambda A, text: detect(A, prefix_mask(text)))(trace.patterns, texts)
    before = jax.vmap(lambda A, text: detect(A, previous_mask(text)).score)(trace.patterns, texts)
    weight = found.n_dest.astype(logits.dtype)
    weight = safe_divide(weight, jnp.broadcast_to(weight.sum(), weight.shape))
    return InductionScores(
        next_token_losses(logits, texts).mean(axis=0),
        jnp.einsum("b,blh->lh", weight, found.score),
        before.mean(axis=0),
        weight @ found.null,
    )
