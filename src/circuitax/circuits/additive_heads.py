"""Heads without a softmax: the same weights, but each source adds to the logits on its own.

Only the denominator of the softmax makes the sources of a head depend on each other. This
module replaces it by one factor that depends on the destination token and one that depends on the
two positions. The model is then a bigram table plus a sum of skip-trigrams, as S0 Theorem 25
states, of the same ranks and with the same positions.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md). E24 is an
erratum of the sources (docs/errata.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.additivity import Additive
from circuitax.circuits.heads import token_ov
from circuitax.kernel.attention import attention_scores, causal_mask, project
from circuitax.kernel.chain import materialise
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.norm import Norm
from circuitax.kernel.per_head import per_head
from circuitax.kernel.positions import Positions


class AdditiveHeads(NamedTuple):
    """``A_ij = exp(s_ij + dest[x_i] + place[i, j])`` instead of ``exp(s_ij) / Σ_j' exp(s_ij')``."""

    model: Model
    dest: Float[Array, "n_heads d_vocab"]
    place: Float[Array, "n_heads n_ctx n_ctx"]


def start_from(model: Model, texts: Int[Array, "batch n_ctx"]) -> AdditiveHeads:
    """A trained model with its denominators averaged over texts.

    ``place`` makes the mean gate at each pair of positions the mean attention there; ``dest`` then
    makes the mean sum of gates 1 for each destination token.

    Args:
        model: One model, not an ensemble, of one layer without norm and MLP.
        texts: Texts that the averages are taken over.

    Raises:
        ValueError: If the model is an ensemble, or its scores depend on more than two tokens
            and two positions.
    """
    scores = jax.vmap(lambda text: pair_scores(model, text))(texts)
    return AdditiveHeads(model, *_factors(model, scores, texts))


def additive_heads_logits(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_vocab"]:
    """Logits of one text: the forward pass, with gates in place of the patterns."""
    n_ctx = tokens.shape[0]
    logs = heads.dest[:, tokens][:, :, None] + heads.place[:, :n_ctx, :n_ctx]
    # Behind the mask before the exponential, which may overflow there: inf * 0 is nan.
    shown = jnp.where(
        _allowed(heads.model, n_ctx), pair_scores(heads.model, tokens) + logs, -jnp.inf
    )
    gates = jnp.exp(shown)
    return forward(heads.model, tokens, Interventions(patterns=gates[None]))[0]


def tables_from(model: Model, texts: Int[Array, "batch n_ctx"]) -> Additive:
    """Free tables of full rank that start at a trained model, to be fitted further.

    ``gate`` is a logarithm here, which fits faster: exponentiate it before `additive_logits`. It
    starts as the scores between tokens, with the mean position vector added to each. What depends
    on token and position together is left out, and so is the own position, which a bigram table
    cannot hold (E24); so are biases behind the scores. Arguments and errors are those of
    `start_from`.
    """
    _check_sum(model)
    x = model.W_E
    if model.spec.positions == Positions.shortformer and model.W_pos is not None:
        x = x + model.W_pos.mean(axis=0)[None, :]
    scores = _scores(model, x)
    of_pairs = jax.vmap(lambda text: scores[:, text[:, None], text[None, :]])(texts)
    dest, place = _factors(model, of_pairs, texts)
    gate, place = _within_range(scores + dest[:, :, None], place)
    raises = materialise(token_ov(model))[0]
    return Additive(model.W_E @ model.W_U, gate, raises, place)


def pair_scores(model: Model, tokens: Int[Array, " n_ctx"]) -> Float[Array, "n_heads n_ctx n_ctx"]:
    """Scores of the only layer, before the mask; each depends on two tokens and two positions.

    Raises:
        ValueError: If the model is an ensemble, or there are more layers, an MLP, a norm, or
            positions that are not added to queries and keys alone.
    """
    _check_sum(model)
    x = jnp.asarray(model.W_E)[tokens]
    if model.spec.positions == Positions.shortformer and model.W_pos is not None:
        x = x + model.W_pos[: tokens.shape[0]]
    return _scores(model, x)


def _check_sum(model: Model) -> None:
    """Refuse a model that is no sum over sources once its denominators are gone."""
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
    """What the only layer's queries and keys make of rows that they read."""
    heads = per_head(model)
    return attention_scores(
        project(x, heads.W_Q[0], None if heads.b_Q is None else heads.b_Q[0]),
        project(x, heads.W_K[0], None if heads.b_K is None else heads.b_K[0]),
        model.spec.scale,
    )


def _within_range(gate: Array, place: Array) -> tuple[Array, Array]:
    """The same sums of both, with no gate of a head too large to be exponentiated by itself.

    A number for each head goes from ``gate`` to ``place``, where it cancels; none does where all
    gates can be exponentiated. Trained models have gates of e^50 and places of e^-50.
    """
    highest = jnp.log(jnp.finfo(gate.dtype).max)
    top = gate.max(axis=(1, 2), keepdims=True)
    surplus = jnp.where(top > highest, top - highest / 2, 0)
    # Tables count earlier sources only; elsewhere 0 times an overflow would be nan.
    earlier = jnp.tril(jnp.ones(place.shape[1:], bool), k=-1)[None]
    return gate - surplus, jnp.where(earlier, place + surplus, place)


def _factors(model: Model, scores: Array, texts: Array) -> tuple[Array, Array]:
    """``dest`` and ``place`` that make the gates match the model's patterns on average.

    All of it in logarithms: a trained model has scores whose exponentials overflow.
    """
    d_vocab, n_heads = model.W_E.shape[0], scores.shape[1]
    allowed = _allowed(model, texts.shape[1])
    patterns = jax.vmap(lambda text: forward(model, text)[1].patterns[0])(texts)
    tiny = jnp.finfo(patterns.dtype).tiny
    mean_pattern = jnp.log(jnp.maximum(patterns.mean(axis=0), tiny))
    mean_gate = logsumexp(scores, axis=0) - jnp.log(len(texts))
    place = jnp.where(allowed, mean_pattern - mean_gate, 0)
    gates = jnp.exp(jnp.where(allowed[None], scores + place[None], -jnp.inf))
    total = jnp.moveaxis(gates.sum(axis=-1), 1, -1).reshape(-1, n_heads)
    mass = jax.ops.segment_sum(total, texts.ravel(), d_vocab)
    seen = jax.ops.segment_sum(jnp.ones(texts.size, total.dtype), texts.ravel(), d_vocab)
    # A prior, since some tokens are rare: each counts as seen three more times with sum 1.
    dest = -jnp.log((mass + 3) / (seen + 3)[:, None]).T
    return dest, place


def _allowed(model: Model, n_ctx: int) -> Bool[Array, "1 n_ctx n_ctx"]:
    index = jnp.arange(n_ctx)
    return causal_mask(index, index, model.spec.causal)[None]
