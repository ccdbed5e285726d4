"""Attention of one sequence, step by step: project, score, mask, softmax, mix, write.

All functions take one sequence with heads first, ``[n_heads, n_ctx, ...]``; vmap over sequences.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures", S2 the
attention chapter and S3 the Kronecker note. Codes such as E4 are errata of the sources
(docs/errata.md).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.softmax import masked_exponentials, masked_softmax


def project(
    x: Float[Array, "n_ctx d_model"],
    W: Float[Array, "n_heads d_model d_out"],
    b: Float[Array, "n_heads d_out"] | None = None,
) -> Float[Array, "n_heads n_ctx d_out"]:
    """Queries, keys or values of every head: ``x @ W[h] + b[h]``.

    Source: S0 Definition 7 (``Q = W_Q X`` in columns); S2 (``q_i = x_i W_Q``, as here).
    """
    y = jnp.einsum("td,hdk->htk", x, W)
    return y if b is None else y + b[:, None, :]


def smear_keys(
    k: Float[Array, "n_heads n_ctx d_head"], smear: Float[Array, " n_heads"]
) -> Float[Array, "n_heads n_ctx d_head"]:
    """Smeared keys: ``k_j <- σ(α) k_j + (1 - σ(α)) k_{j-1}``; the first key is untouched.

    Source: induction-heads paper, "smeared key" architecture.
    """
    own = jax.nn.sigmoid(smear)[:, None, None]
    previous = jnp.concatenate([k[:, :1], k[:, :-1]], axis=1)
    return own * k + (1 - own) * previous


def attention_scores(
    q: Float[Array, "n_heads dest d_head"],
    k: Float[Array, "n_heads src d_head"],
    score_scale: float,
) -> Float[Array, "n_heads dest src"]:
    """``s_ts = score_scale · ⟨q_t, k_s⟩``, before mask and softmax.

    Source: S0 Definitions 7 and 12, ``Q^T K``.
    Differs: S2 prints ``q_i^T k_j`` of row vectors, an outer product (E30); S3 Definition 1 prints
        scores of shape d_k x d_k (E4).
    """
    return jnp.einsum("htk,hsk->hts", score_scale * q, k)


def causal_mask(
    dest: Int[Array, " dest"],
    src: Int[Array, " src"],
    causal: bool = True,
    window: int | Int[Array, ""] | None = None,
) -> Bool[Array, "dest src"]:
    """True where position ``dest`` may read position ``src``: ``src <= dest``, or always.

    Source: S0 Remark 11.
    Differs: S0 omits the mask and sums over ``j <= i`` later; here it is always stated (E12).
    """
    shape = (dest.shape[0], src.shape[0])
    allowed = src[None, :] <= dest[:, None] if causal else jnp.ones(shape, bool)
    return allowed if window is None else allowed & (dest[:, None] - src[None, :] < window)


def cap(scores: Float[Array, "*shape"], bound: float | None) -> Float[Array, "*shape"]:
    """``c tanh(s / c)``, which keeps scores or logits between -c and c; None for no bound.

    Source: Gemma 2, "logit soft-capping".
    """
    return scores if bound is None else bound * jnp.tanh(scores / bound)


def attention_pattern(
    scores: Float[Array, "n_heads dest src"], mask: Bool[Array, "dest src"]
) -> Float[Array, "n_heads dest src"]:
    """``A = softmax over sources of the masked scores``; each row sums to 1.

    Source: S0 Definition 7 and Remark 11.
    """
    return masked_softmax(scores, mask)


def mix_values(
    pattern: Float[Array, "n_heads dest src"], v: Float[Array, "n_heads src d_value"]
) -> Float[Array, "n_heads dest d_value"]:
    """The mixed values ``A[h] @ v[h]``, before the output map.

    Source: S0 Definition 7, ``H = V A^T`` in columns.
    """
    return jnp.einsum("hts,hsv->htv", pattern, v)


def attend(
    scores: Float[Array, "n_heads dest src"],
    mask: Bool[Array, "dest src"],
    v: Float[Array, "n_heads src d_value"],
) -> tuple[Float[Array, "n_heads dest d_value"], Float[Array, "n_heads dest src"]]:
    """`mix_values` with the `attention_pattern` of the scores, and that pattern.

    Source: S0 Definition 7 and Remark 11.
    """
    exponentials, total = masked_exponentials(scores, mask)
    return mix_values(exponentials, v) / total[..., None], exponentials / total[..., None]


def head_outputs(
    mixed: Float[Array, "n_heads n_ctx d_value"], W_O: Float[Array, "n_heads d_value d_model"]
) -> Float[Array, "n_heads n_ctx d_model"]:
    """The heads' outputs to the stream, ``A[h] @ x @ W_V[h] @ W_O[h]``.

    Source: S0 Claim 18, ``(A ⊗ W_O W_V) X``.
    """
    return jnp.einsum("htv,hvd->htd", mixed, W_O)


def write_heads(
    mixed: Float[Array, "n_heads n_ctx d_value"],
    W_O: Float[Array, "n_heads d_value d_model"],
    b_O: Float[Array, " d_model"] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """The sum over heads of `head_outputs`, in one product, plus the bias.

    Source: S0 Definition 8: concatenating the heads and multiplying by one ``W_O`` is the same sum.
    """
    y = jnp.einsum("htv,hvd->td", mixed, W_O)
    return y if b_O is None else y + b_O[None, :]
