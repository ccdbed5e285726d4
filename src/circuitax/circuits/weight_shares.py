"""The difference of two models on the same texts, exactly, by their weights.

Derivations: docs/methods/contrast.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, final_stream, token_ids, unembed
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model, check_next_tokens, check_one_member
from circuitax.kernel.secants import PAIR, log_total, weight_secant


def weight_shares(model: Model, other: Model, tokens: Tokens) -> Model:
    """Which weights' change moved the loss: the exact share of every entry of every weight.

    ``loss(model) - loss(other) = Σ_w Δw m_w`` over all entries w, with the multiplier m found by
    one pass backwards in which every derivative is the secant between the two models: as `contrast`
    has it between two texts, and with ``Δ(xW) = x̄ ΔW + W̄ Δx``. An exchange of the models changes
    every sign; where they meet the multiplier is the gradient.

    Args:
        model: One model, such as a checkpoint; both are read in single precision at least.
        other: Another one of the same spec.
        tokens: A text, or a batch of texts of one length, of at least two tokens each.

    Returns:
        The shares, shaped as the weights: ``shares.W_Q.sum((-2, -1))`` has those of each head.

    Raises:
        ValueError: If the specs differ, a model is an ensemble, smears keys, or has deeper MLPs or
            norms after attention, or the tokens are no texts.

    Source: ours.
    """
    for each in (model, other):
        check_one_member(each)
        check_next_tokens(each)
    if other.spec != model.spec:
        raise ValueError("other has another spec, must be a model of the spec of model")
    spec = model.spec
    for name, used in (
        ("smeared_keys", spec.smeared_keys),
        ("post_norm", spec.post_norm),
        ("mlp_depth", spec.mlp_depth > 1),
    ):
        if used:
            raise ValueError(f"model.spec.{name}={getattr(spec, name)} has no shares of weights")
    ids = token_ids(tokens, model.d_vocab, batch=True)
    if ids.shape[-1] < 2:
        raise ValueError(f"tokens has shape {ids.shape}, must have two tokens in each text")
    first, second = jax.tree.map(at_least_single, (model, other))
    return _shares(first, second, ids.reshape(-1, ids.shape[-1]))


@compiled()
def _shares(model: Model, other: Model, texts: Int[Array, "text n_ctx"]) -> Model:
    both = jax.tree.map(lambda *weights: jnp.stack(weights), model, other)

    def mean_loss(by: Model) -> Float[Array, ""]:
        def of_model(one: Model) -> Float[Array, ""]:
            moved = jax.tree.map(jnp.add, one, by)

            def of_text(text: Int[Array, " n_ctx"]) -> Float[Array, " n_losses"]:
                stream, _ = final_stream(moved, text, rule=weight_secant)
                logits, _ = unembed(moved, stream[:-1], rule=weight_secant)
                right = jnp.take_along_axis(logits, text[1:, None], axis=-1)[:, 0]
                return log_total(logits) - right

            return jax.vmap(of_text)(texts).mean()

        return jax.vmap(of_model, axis_name=PAIR)(both).mean()

    multipliers = jax.grad(mean_loss)(jax.tree.map(jnp.zeros_like, model))
    return jax.tree.map(lambda a, b, m: (a - b) * m, model, other, multipliers)
