"""Heads without a softmax: the same weights, but each source adds to the logits on its own.

Only the denominator of the softmax makes the sources of a head depend on each other. This
module replaces it by one factor that depends on the destination token and one that depends on the
two positions. The model is then a bigram table plus a sum of skip-trigrams, as S0 Theorem 25
states, of the same ranks and with the same positions.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.nn import softmax
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.attention import attention_scores, causal_mask, per_head, project
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


class AdditiveHeads(NamedTuple):
    """``A_ij = exp(s_ij + dest[x_i] + place[i, j])`` instead of ``exp(s_ij) / Σ_j' exp(s_ij')``."""

    model: Model
    dest: Float[Array, "n_heads d_vocab"]
    place: Float[Array, "n_heads n_ctx n_ctx"]


def counted(model: Model) -> AdditiveHeads:
    """The same weights, with the number of sources where the softmax has its denominator.

    ``dest = 0`` and ``place[i, j] = -log(i + 1)``, one more than ``i`` being the sources that
    position i sees. Equal to the model where all scores are 0, and near it at an initialisation,
    where they are small.
    """
    _check_sum(model)
    n_ctx, n_heads = model.spec.n_ctx, model.spec.n_heads
    if n_ctx is None:
        raise ValueError("spec.n_ctx=None must be set: each pair of positions has a factor")
    seen = _allowed(model, n_ctx).sum(axis=-1, keepdims=True)
    place = jnp.broadcast_to(-jnp.log(seen), (n_heads, n_ctx, n_ctx)).astype(model.W_E.dtype)
    return AdditiveHeads(model, jnp.zeros((n_heads, model.W_E.shape[0]), place.dtype), place)


def additive_heads_logits(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_vocab"]:
    """Logits of one text: the forward pass, with gates in place of the patterns."""
    gates = jnp.exp(_log_gates(heads, tokens))
    return forward(heads.model, tokens, Interventions(all_patterns=gates[None]))[0]


def normalised_heads_logits(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_vocab"]:
    """The same heads with their denominators: ``A_ij = softmax_j(s_ij + place[i, j])``."""
    patterns = softmax(_log_gates(heads, tokens), axis=-1)
    return forward(heads.model, tokens, Interventions(all_patterns=patterns[None]))[0]


def _log_gates(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_heads n_ctx n_ctx"]:
    n_ctx = tokens.shape[0]
    logs = heads.dest[:, tokens][:, :, None] + heads.place[:, :n_ctx, :n_ctx]
    # Behind the mask before the exponential, which may overflow there: inf * 0 is nan.
    return jnp.where(
        _allowed(heads.model, n_ctx), pair_scores(heads.model, tokens) + logs, -jnp.inf
    )


def pair_scores(model: Model, tokens: Int[Array, " n_ctx"]) -> Float[Array, "n_heads n_ctx n_ctx"]:
    """Scores of the only layer, before the mask; each depends on two tokens and two positions."""
    _check_sum(model)
    x = jnp.asarray(model.W_E)[tokens]
    if model.spec.positions == Positions.shortformer and model.W_pos is not None:
        x = x + model.W_pos[: tokens.shape[0]]
    return _scores(model, x)


def _check_sum(model: Model) -> None:
    """Refuse a model that is not additive over sources without its denominators."""
    check_one_member(model)
    spec = model.spec
    if spec.qk_norm or spec.score_cap is not None or spec.window is not None:
        raise ValueError("spec must have no qk_norm, score_cap or window: scores would be no sum")
    if spec.n_layers != 1 or model.blocks.mlp is not None:
        raise ValueError("model must have one layer and no MLP to be a sum over sources")
    if spec.norm != Norm.none:
        raise ValueError(f"spec.norm={spec.norm.value} must be none")
    if spec.positions not in (Positions.none, Positions.shortformer):
        raise ValueError(f"spec.positions={spec.positions.value} must be none or shortformer")


def _scores(model: Model, x: Float[Array, "n d_model"]) -> Float[Array, "n_heads n n"]:
    """Scores of the only layer for given rows of queries and keys."""
    heads = per_head(model)
    return attention_scores(
        project(x, heads.W_Q[0], None if heads.b_Q is None else heads.b_Q[0]),
        project(x, heads.W_K[0], None if heads.b_K is None else heads.b_K[0]),
        model.spec.scale,
    )


def _allowed(model: Model, n_ctx: int) -> Bool[Array, "1 n_ctx n_ctx"]:
    index = jnp.arange(n_ctx)
    return causal_mask(index, index, model.spec.causal)[None]
