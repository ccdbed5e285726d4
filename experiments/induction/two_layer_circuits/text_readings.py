"""Measurements on repeated texts: heads, terms and ablations of an attention-only model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from circuitax.circuits.detectors import induction_scores, shares_at_repeats, sums_at_repeats
from circuitax.circuits.patching import ablated_metrics, ablation_error, each_component
from circuitax.circuits.term_losses import score_losses, term_losses
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.model import Model
from circuitax.kernel.run import run


def text_readings(model: Model, texts: Int[Array, "batch n_ctx"], late: int) -> dict[str, Array]:
    """Detector scores, losses of terms, and losses under every single ablation.

    Args:
        model: One attention-only model of 2 to 8 layers, not an ensemble.
        texts: Texts that repeat themselves.
        late: Losses are means over the tokens from this index on, all of which are decided by
            earlier tokens; from 1 to ``n_ctx - 1``.

    Returns:
        Means over texts. ``loss`` and ``loss_by_position``; ``prefix``, ``previous`` and ``chance``
        as in `induction_scores.InductionScores`; ``order_loss`` and ``first_order_loss`` as in
        `term_losses.TermLosses`; ``score_loss`` as in `term_losses.score_losses` of layer 1;
        ``ablated`` and ``ablated_preserving``, the loss without each head when later layers react
        and when patterns stay, ``[n_layers, n_heads]``; the three of `repeats.shares_at_repeats`;
        and ``identity``, the greatest error of `identities.ablation_error` on the first text,
        relative to the greatest logit.

    Raises:
        ValueError: If the model is an ensemble or has an MLP or another depth, or ``late`` is out
            of range.
    """
    if not 1 <= late < texts.shape[-1]:
        raise ValueError(f"late={late} must be from 1 to {texts.shape[-1] - 1}")
    if model.n_layers < 2:
        raise ValueError(f"model has n_layers={model.n_layers}, must have at least 2")
    scores = induction_scores(model, texts)

    def one(text: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        seen = run(model, text, outputs=True)
        terms = term_losses(seen)

        def loss(logits: Array) -> Array:
            return next_token_losses(logits, text)[late - 1 :].mean()

        cells = each_component(model)
        shape = cells.heads.shape[1:]
        reacting = ablated_metrics(model, text, cells, loss)
        preserving = ablated_metrics(model, text, cells, loss, preserved=seen.trace)
        return {
            "order_loss": terms.order[:, late - 1 :].mean(axis=1),
            "first_order_loss": terms.first_order[:, late - 1 :].mean(axis=1),
            "score_loss": score_losses(seen)[:, late - 1 :].mean(axis=1),
            "ablated": reacting.reshape(shape),
            "ablated_preserving": preserving.reshape(shape),
        }, sums_at_repeats(seen, jnp.arange(1, len(text)) >= late)

    found, sums = jax.lax.map(one, texts)
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    means |= shares_at_repeats(jax.tree.map(lambda x: x.sum(axis=0), sums))
    late_loss = scores.loss_by_position[late - 1 :].mean()
    named = {"prefix": scores.prefix, "previous": scores.previous, "loss": late_loss}
    by_position = {"loss_by_position": scores.loss_by_position, "chance": scores.chance}
    first = run(model, texts[0])
    identity = jnp.abs(ablation_error(first)).max() / jnp.abs(first.logits).max()
    return means | named | by_position | {"identity": identity}
