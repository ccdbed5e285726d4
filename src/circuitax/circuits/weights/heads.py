"""The QK and OV circuits of every head, over features, tokens, positions and offsets, as chains.

With rotary positions ``⟨q_t, k_s⟩ = q R_Δ kᵀ``, Δ = t - s, so that a head has one QK circuit for
each offset: ``W_QK(Δ) = W_Q R_Δ W_Kᵀ``. Each entry is a trigonometric polynomial in Δ: pair i of
the head's entries turns by ``f_i Δ``, so coefficients say exactly how content and offset interact.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from circuitax.circuits.weights.folding import check_pre_ln, fold_read, over_heads
from circuitax.kernel.attention import per_head, spread_groups, turn
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.checks import whole
from circuitax.kernel.gauge import (
    centre_sources,
    centre_vocabulary,
    fold_score_scale,
    with_constant,
)
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.norm import Norm, norm_scale
from circuitax.kernel.positions import Positions, sinusoidal
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.spectrum import norm as chain_norm
from circuitax.kernel.weights import HeadStack


def head_qk(heads: HeadStack, score_scale: float) -> Chain:
    """``W_QK = scale · W_Q W_Kᵀ``, destination × source, ``[*batch, n_heads, d_model, d_model]``.

    Source: S0 Definition 23, over features (E3: the name is used for the V × V matrix there).
    Differs: the score scale is inside (E13).
    """
    heads = _all_heads(heads)
    return fold_score_scale(chain_of(heads.W_Q, jnp.matrix_transpose(heads.W_K)), score_scale)


def head_ov(heads: HeadStack) -> Chain:
    """``W_OV = W_V W_O``, read × write, ``[*batch, n_heads, d_model, d_model]``.

    Source: S0 Claim 18, where it is the transpose ``W_O W_V``.
    """
    heads = _all_heads(heads)
    return chain_of(heads.W_V, heads.W_O)


def _all_heads(heads: HeadStack) -> HeadStack:
    if heads.q_gain is not None:
        raise ValueError("heads.q_gain must be None: pass kernel.per_head.per_head(model)")
    return spread_groups(heads, heads.W_Q.shape[-3])


def token_qk(model: Model, *, offset: int = 0, centred: bool = True) -> Chain:
    """The full QK circuit ``W_E W_QK W_Eᵀ``: entry (u, v) scores source v for destination u.

    ``[n_layers, n_heads, d_vocab, d_vocab]``, biases included. Under a norm each token is read as
    it stands alone in the stream, which is exact for layer 0 without positions in the stream.

    Args:
        model: Any transformer; one model, not an ensemble.
        offset: ``dest - src`` in steps, for rotary positions, whose ``W_QK`` depends on it.
        centred: Whether each row has mean 0. This changes no attention pattern, unless positions
            are rotary: sources at other offsets then have other tables, whose means differ.

    Raises:
        ValueError: If the model is an ensemble or post-LN, keys are smeared, so that a score needs
            the token before the source as well, or scores are not bilinear: QK-norm, a bound on
            scores.

    Source: S0 Definition 23.
    Differs: S0 prints ``W_Eᵀ W_Q W_K W_E``, whose shapes do not meet (E1), and no scale (E13).
    """
    check_one_member(model)
    offset = whole("offset", offset)
    rows, W_Q, W_K = _query_key_maps(model, offset)
    qk = fold_score_scale(chain_of(rows, W_Q, jnp.matrix_transpose(W_K), rows.T), model.spec.scale)
    return centre_sources(qk) if centred else qk


def token_ov(model: Model, *, centred: bool = True) -> Chain:
    """The full OV circuit ``W_E W_OV W_U``: entry (u, v) is how much attending to u raises v.

    ``[n_layers, n_heads, d_vocab, d_vocab]``, source × out. Value biases write the same whatever
    is attended and are left out; norms are as in `token_qk`, with the final scale left out.

    Args:
        model: Any transformer; one model, not an ensemble.
        centred: Whether ``W_U`` is centred over the vocabulary, which changes no probability.

    Raises:
        ValueError: If the model is an ensemble or post-LN.

    Source: S0 Definition 23 and Remark 24.
    Differs: S0's matrix ``W_U W_O W_V W_E`` is the transpose, so that the raise of v by u is its
        entry (v, u), not (u, v) as Remark 24 prints (E2).
    """
    check_one_member(model)
    heads, gain = per_head(model), over_heads(model.blocks.attention_norm)
    W_V, _ = fold_read(heads.W_V, None, model.spec.norm, gain)
    return chain_of(_token_rows(model), W_V, heads.W_O, unembedding(model, centred=centred))


def unembedding(model: Model, *, centred: bool = True) -> Float[Array, "d_model d_vocab"]:
    """``W_U`` with the final norm's gain and centring inside, centred over the vocabulary."""
    final = model.spec.norm if model.spec.final_norm else Norm.none
    W_U, _ = fold_read(model.W_U, None, final, model.final_norm)
    return centre_vocabulary(W_U) if centred else W_U


class PositionBlocks(NamedTuple):
    """The scores of layer 0 by token and position: their sum is the score before the mask."""

    token_token: Chain
    token_position: Chain
    position_token: Chain
    position_position: Chain


def position_blocks(model: Model, n_ctx: int) -> PositionBlocks:
    """``(E + P) W_QK (E + P)ᵀ`` multiplied out, uncentred; biases are read with the token.

    Source: framework paper, positional heads; the score is bilinear in the two streams.
    """
    if model.spec.positions.in_stream and model.spec.norm != Norm.none:
        raise ValueError(f"spec.norm={model.spec.norm.value} must be none to split positions off")
    spec = model.spec
    heads = per_head(model)
    tokens, W_Q, W_K = _query_key_maps(model, 0)
    positions = position_vectors(model, n_ctx)

    def block(dest: Array, q: Array, k: Array, src: Array) -> Chain:
        return fold_score_scale(chain_of(dest, q, jnp.matrix_transpose(k), src.T), spec.scale)

    return PositionBlocks(
        block(tokens, W_Q, W_K, tokens),
        block(tokens, W_Q, heads.W_K, positions),
        block(positions, heads.W_Q, W_K, tokens),
        block(positions, heads.W_Q, heads.W_K, positions),
    )


def positional_share(blocks: PositionBlocks) -> Float[Array, "n_layers n_heads"]:
    """Share of the scores' variance over sources due to positions alone, in [0, 1]."""
    by_position = _variance_over_sources(blocks.position_position)
    by_token = _variance_over_sources(blocks.token_token)
    return safe_divide(by_position, by_position + by_token)


def position_vectors(model: Model, n_ctx: int) -> Float[Array, "n_ctx d_model"]:
    """The vectors of the first positions, learned or sinusoidal."""
    W_E, W_pos = model.W_E, model.W_pos
    if model.spec.positions.needs_table and W_pos is not None:
        if n_ctx > W_pos.shape[0]:
            raise ValueError(f"n_ctx={n_ctx} must be at most the {W_pos.shape[0]} rows of W_pos")
        return W_pos[:n_ctx]
    return sinusoidal(jnp.arange(n_ctx), W_E.shape[1], W_E.dtype, model.spec.rotary_base)


def _token_rows(model: Model) -> Float[Array, "d_vocab d_model"]:
    """Each token's embedding over its own norm scale; gain and centring are in the readers."""
    check_pre_ln(model, "token circuits")
    scale = norm_scale(model.W_E, model.spec.read_norm, model.spec.norm_eps)
    return model.W_E / scale[:, None]


def _query_key_maps(model: Model, offset: int) -> tuple[Array, Array, Array]:
    """Token rows, ``W_Q``, turned by the offset if positions are rotary, and ``W_K``."""
    spec, heads = model.spec, per_head(model)
    if heads.smear is not None:
        raise ValueError("blocks.attention.smear must be None: it mixes keys of two tokens")
    if spec.qk_norm or spec.score_cap is not None:
        raise ValueError(
            "spec.qk_norm must be False and spec.score_cap None: scores are not bilinear in "
            "tokens; score_terms(run) splits those of a text"
        )
    norm = over_heads(model.blocks.attention_norm)
    W_Q, b_Q = fold_read(heads.W_Q, heads.b_Q, spec.norm, norm)
    W_K, b_K = fold_read(heads.W_K, heads.b_K, spec.norm, norm)
    rows = _token_rows(model)
    if b_Q is not None or b_K is not None:
        rows, W_Q, W_K = with_constant(rows), _with_bias(W_Q, b_Q), _with_bias(W_K, b_K)
    if spec.positions == Positions.rotary:
        W_Q = W_Q @ rotation(spec, offset, W_Q.dtype)
    return rows, W_Q, W_K


def rotation(
    spec: TransformerSpec, offset: int | Int[Array, ""], dtype: DTypeLike
) -> Float[Array, "n_layers 1 d_head d_head"]:
    """``R_Δ`` with ``⟨q_t, k_s⟩ = q R_Δ kᵀ`` for Δ = t - s, in every layer, of rows q and k."""
    d_head = spec.head_width
    eye, index = jnp.eye(d_head, dtype=dtype)[None], jnp.full(d_head, offset)
    kinds = {is_local: turn(eye, index, spec, is_local) for is_local in (False, True)}
    return jnp.stack([kinds[spec.is_local(layer)] for layer in range(spec.n_layers)])


def _with_bias(W: Array, b: Array | None) -> Array:
    row = jnp.zeros_like(W[..., :1, :]) if b is None else b[..., None, :]
    return jnp.concatenate([W, row], axis=-2)


def _variance_over_sources(table: Chain) -> Float[Array, "n_layers n_heads"]:
    n_dest, n_src = table.shape[-2:]
    return chain_norm(centre_sources(table)) ** 2 / (n_dest * n_src)


def qk_at_offset(
    model: Model, offset: int | Int[Array, ""]
) -> Float[Array, "n_layers n_heads d_model d_model"]:
    """``W_QK(Δ) = scale · W_Q R_Δ W_Kᵀ`` of every head, for rows of the bare stream."""
    W_Q, W_K = _maps(model)
    turned = W_Q @ rotation(model.spec, offset, W_Q.dtype)
    return model.spec.scale * turned @ jnp.matrix_transpose(W_K)


def _maps(model: Model) -> tuple[Array, Array]:
    """``W_Q`` and ``W_K`` of every head, with the gain of the norm before them."""
    heads, norm = per_head(model), over_heads(model.blocks.attention_norm)
    kind = model.spec.read_norm
    return fold_read(heads.W_Q, None, kind, norm)[0], fold_read(heads.W_K, None, kind, norm)[0]


def _bias(model: Model, name: str) -> Array:
    """Bias of queries or keys, from their own biases and the offset of the norm before them."""
    heads, norm = per_head(model), over_heads(model.blocks.attention_norm)
    W, b = (heads.W_Q, heads.b_Q) if name == "b_Q" else (heads.W_K, heads.b_K)
    found = fold_read(W, b, model.spec.read_norm, norm)[1]
    return jnp.zeros((1, 1, 1, 1), W.dtype) if found is None else found[:, :, None, :]
