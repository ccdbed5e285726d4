"""Gauge freedom: changes of weights that leave outputs unchanged, and readable choices among them.

Scores enter a softmax over sources and logits one over the vocabulary, so a constant along that
axis is invisible; the inside of a head may be turned by any invertible matrix. Before the first
freedom is fixed, a table shows numbers that do not affect the model.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.chain import Chain, scale


def centre_sources(qk: Chain) -> Chain:
    """A QK table ``[dest, src]`` minus its mean over sources, row by row, still factored.

    ``softmax_src(table[t_dest, t_src])`` is unchanged for every sequence of tokens, masked or
    not, because the constant depends on the destination alone. Only the last factor changes:
    ``M (I - 1 1ᵀ/n) = F_1 … F_{n-1} (F_n - mean over its columns)``.
    """
    return Chain((*qk.factors[:-1], centre_last(qk.factors[-1])))


def centre_vocabulary(W_U: Float[Array, "*batch d_model d_vocab"]) -> Float[Array, "*batch d d_v"]:
    """The unembedding minus its mean over the vocabulary; probabilities are unchanged.

    Every logit moves by ``-x · mean(W_U)``, the same for all tokens.
    """
    return centre_last(W_U)


def centre_last(table: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``table - mean(table, axis=-1)``, the projection that the two gauges above share."""
    return table - jnp.mean(table, axis=-1, keepdims=True)


def fold_score_scale(qk: Chain, score_scale: float | Float[Array, "*batch"]) -> Chain:
    """W_QK with the score scale inside, so that its entries are the softmax's arguments."""
    return scale(qk, score_scale)


def turn_qk(
    W_Q: Float[Array, "*batch d_model d_head"],
    W_K: Float[Array, "*batch d_model d_head"],
    R: Float[Array, "*batch d_head d_head"],
) -> tuple[Float[Array, "*batch d_model d_head"], Float[Array, "*batch d_model d_head"]]:
    """``(W_Q R, W_K R⁻ᵀ)`` for an invertible R: the same ``W_QK = W_Q W_Kᵀ``."""
    # W_K R^-T = (R^-1 W_K^T)^T, a solve instead of an inverse
    return W_Q @ R, jnp.matrix_transpose(jnp.linalg.solve(R, jnp.matrix_transpose(W_K)))


def turn_ov(
    W_V: Float[Array, "*batch d_model d_value"],
    W_O: Float[Array, "*batch d_value d_model"],
    R: Float[Array, "*batch d_value d_value"],
) -> tuple[Float[Array, "*batch d_model d_value"], Float[Array, "*batch d_value d_model"]]:
    """``(W_V R, R⁻¹ W_O)`` for an invertible R: the same ``W_OV = W_V W_O``."""
    return W_V @ R, jnp.linalg.solve(R, W_O)
