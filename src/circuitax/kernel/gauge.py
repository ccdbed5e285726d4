"""Changes of weights that leave outputs unchanged: gauges, biases as weights, and value matrices.

Scores enter a softmax over sources and logits one over the vocabulary, so a constant along that
axis is invisible; the inside of a head may be turned by any invertible matrix. Before the first
freedom is fixed, a table shows numbers that do not affect the model.

S0 footnote 2 appends a constant coordinate and folds an affine map into a linear one whose bottom
row hands the constant on. Inside a residual block that row must be 0: the stream already carries
the constant, and a block that writes it again doubles it at every layer (E25).

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.chain import Chain, scale
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.weights import Blocks


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


def with_constant(x: Float[Array, "*batch d"]) -> Float[Array, "*batch d+1"]:
    """``x' = (x, 1)``.

    Source: S0 footnote 2.
    """
    return jnp.concatenate([x, jnp.ones((*x.shape[:-1], 1), x.dtype)], axis=-1)


def fold_affine(
    W: Float[Array, "*batch d_in d_out"], b: Float[Array, "*batch d_out"], *, residual: bool
) -> Float[Array, "*batch d_in+1 d_out+1"]:
    """The linear map on ``(x, 1)`` equal to ``x W + b`` on x: ``[[W, 0], [b, c]]``.

    c = 1 gives ``(x W + b, 1)``, to be used in sequence; c = 0 gives ``(x W + b, 0)``, to be added
    to a stream that carries the 1 itself.

    Source: S0 footnote 2, ``A' = [[A, b], [0 ... 0, 1]]`` in columns.
    Differs: c = 0 for residual writes (E25).
    """
    top = jnp.concatenate([W, jnp.zeros((*W.shape[:-1], 1), W.dtype)], axis=-1)
    corner = jnp.full((*b.shape[:-1], 1), 0 if residual else 1, b.dtype)
    bottom = jnp.concatenate([b, corner], axis=-1)
    return jnp.concatenate([top, bottom[..., None, :]], axis=-2)


def fold_biases(model: Model) -> Model:
    """The same attention-only model without biases, on a stream with one more coordinate.

    Source: S0 section 2.3, assumption 2 and footnote 2.
    """
    spec = model.spec
    if spec.norm != Norm.none:
        raise ValueError(f"spec.norm={spec.norm.value} must be none to fold biases")
    if model.blocks.mlp is not None:
        raise ValueError("model.blocks.mlp must be None to fold biases: an MLP is not linear")
    if spec.positions.computed_from_width:
        raise ValueError(
            f"spec.positions={spec.positions.value} depends on d_model, which folding changes"
        )
    heads = model.blocks.attention

    def read(W: Array, b: Array | None) -> Array:
        row = jnp.zeros((*W.shape[:-2], W.shape[-1]), W.dtype) if b is None else b
        return jnp.concatenate([W, row[..., None, :]], axis=-2)

    def silent(W: Array) -> Array:
        return jnp.concatenate([W, jnp.zeros((*W.shape[:-1], 1), W.dtype)], axis=-1)

    W_V = silent(read(heads.W_V, heads.b_V)).at[..., -1, -1].set(1)
    W_O = silent(heads.W_O)
    bias_row = jnp.zeros((*W_O.shape[:-2], 1, W_O.shape[-1]), W_O.dtype)
    if heads.b_O is not None:
        bias_row = bias_row.at[..., 0, 0, :-1].set(heads.b_O)
    folded = heads._replace(
        W_Q=read(heads.W_Q, heads.b_Q),
        W_K=read(heads.W_K, heads.b_K),
        W_V=W_V,
        W_O=jnp.concatenate([W_O, bias_row], axis=-2),
        b_Q=None,
        b_K=None,
        b_V=None,
        b_O=None,
    )
    return model.replace(
        W_E=with_constant(model.W_E),
        W_U=read(model.W_U, model.b_U),
        blocks=Blocks(folded),
        W_pos=None if model.W_pos is None else silent(model.W_pos),
        b_U=None,
    )


def collapse_values(
    W_V: Float[Array, "*batch d_model d_value"], W_O: Float[Array, "*batch d_value d_model"]
) -> Float[Array, "*batch d_model d_model"]:
    """The single map of the stream that S1 calls ``W_V``: ``W_V @ W_O``, of rank d_value at most.

    Source: S1 section 4, "What really happens with W_V".
    """
    return W_V @ W_O


def factor_values(
    collapsed: Float[Array, "*batch d_model d_model"],
    d_value: int,
    tolerance: float = 1e-5,
) -> tuple[Float[Array, "*batch d_model d_value"], Float[Array, "*batch d_value d_model"]]:
    """The pair ``(W_V, W_O)`` with ``W_V @ W_O = collapsed``, balanced; d_value bounds the rank.

    ``W_V = U sqrt(S)``, ``W_O = sqrt(S) V^T`` from the singular values. The pair is unique up to an
    invertible map between the two. The function reads singular values on the host, so it does not
    run under jit.

    Source: S1 section 4.
    Differs: S1 calls the collapsed form mathematically equivalent; it is more general, since only
        matrices of rank d_value or less come from a pair (E31).
    """
    d_model = collapsed.shape[-1]
    if not 1 <= d_value <= d_model:
        raise ValueError(f"d_value={d_value} must lie in [1, d_model={d_model}]")
    U, S, Vt = jnp.linalg.svd(collapsed, full_matrices=False)
    values = np.asarray(S)
    rank = int((values > tolerance * values[..., :1]).sum(axis=-1).max())
    if rank > d_value:
        raise ValueError(f"d_value={d_value} must be at least the rank of collapsed, {rank}")
    root = jnp.sqrt(S[..., :d_value])
    return U[..., :d_value] * root[..., None, :], root[..., :, None] * Vt[..., :d_value, :]
