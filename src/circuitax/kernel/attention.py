"""Attention of one sequence, step by step: project, turn, score, mask, softmax, mix, write.

Pairs are neighbouring entries (2i, 2i + 1) of a head here. Files that pair entry i with i + half of
the rotated width are permuted when they are read (`models.hub_weights`), which changes no score.

Grouped heads share keys and values, gains of QK-norm stand between a map and the scores, and a
norm of what attention writes has a gain after ``W_O``. All of this is linear and goes into the maps
here, once, so that no analysis has to know about it.

The cache holds keys and values of positions already read, for decoding step by step.

All functions take one sequence with heads first, ``[n_heads, n_ctx, ...]``; vmap over sequences.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Int

from circuitax.display.tables import documented
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions, rotate
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import HeadStack, NormWeights


def softmax(z: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """``softmax(z)_i = exp(z_i) / Σ_j exp(z_j)`` along one axis.

    Source: S0 Definition 1.
    """
    return jax.nn.softmax(at_least_single(z), axis=axis).astype(z.dtype)


def masked_softmax(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> Float[Array, "*batch dest src"]:
    """Softmax over the sources a mask allows; the others get exactly 0 and a zero gradient.

    Source: S0 Remark 11; S2, "Self-Attention and Causal Masking".
    """
    exponentials, total = masked_exponentials(scores, mask)
    return (exponentials / total[..., None]).astype(scores.dtype)


def masked_exponentials(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> tuple[Float[Array, "*batch dest src"], Float[Array, "*batch dest"]]:
    """`masked_softmax` before its division: ``exp(s - max s)``, and the sum of each row.

    Both are of single precision at least.
    """
    z = jnp.where(jnp.broadcast_to(mask, scores.shape), at_least_single(scores), -jnp.inf)
    # The shift cancels in the quotient, and so does its derivative. It is finite for every row.
    shift = jnp.maximum(jnp.max(z, axis=-1), jnp.finfo(z.dtype).min)
    exponentials = jnp.exp(z - jax.lax.stop_gradient(shift)[..., None])
    total = jnp.sum(exponentials, axis=-1)
    return exponentials, jnp.where(total > 0, total, 1)


def rotary_frequencies(
    spec: TransformerSpec, dtype: DTypeLike, local: bool | Bool[Array, ""]
) -> Float[Array, " n_pairs"]:
    """The angle by which one step turns each pair, ``base^(-2i / rotary_dim)`` unless given.

    Source: RoFormer; S2, the attention chapter (docs/bibliography.md), "Positional encodings"
        (RoPE).
    """
    width, dtype = spec.rotary_width, jnp.promote_types(dtype, jnp.float32)
    powers = -jnp.arange(0, width, 2, dtype=dtype) / width
    if spec.rotary_frequencies is None:
        usual = spec.rotary_base**powers
    else:
        usual = jnp.asarray(spec.rotary_frequencies, dtype)
    if spec.local_rotary_base is None:
        return usual
    return jnp.where(local, spec.local_rotary_base**powers, usual)


def turn(
    x: Float[Array, "n_heads n_ctx d_head"],
    index: Int[Array, " n_ctx"],
    spec: TransformerSpec,
    local: bool | Bool[Array, ""],
) -> Float[Array, "n_heads n_ctx d_head"]:
    """Queries or keys turned by their positions; unchanged where positions are not rotary."""
    if spec.positions != Positions.rotary:
        return x
    frequencies = rotary_frequencies(spec, x.dtype, local)
    width = spec.rotary_width
    if width == x.shape[-1]:
        return rotate(x, index, frequencies)
    turned = rotate(x[..., :width], index, frequencies)
    return jnp.concatenate([turned, x[..., width:]], axis=-1)


def per_head(model: Model) -> HeadStack:
    """One map of each kind for every query head; the same arrays where no heads share weights."""
    heads = spread_groups(model.blocks.attention, model.n_heads)
    if heads.q_gain is not None and heads.k_gain is not None:
        joint = model.spec.joint_qk_norm
        q, k = (g if joint else g[..., None, :] for g in (heads.q_gain, heads.k_gain))
        heads = heads._replace(
            W_Q=heads.W_Q * q[..., None, :],
            W_K=heads.W_K * k[..., None, :],
            b_Q=None if heads.b_Q is None else heads.b_Q * q,
            b_K=None if heads.b_K is None else heads.b_K * k,
            q_gain=None,
            k_gain=None,
        )
    after: NormWeights | None = model.blocks.attention_post_norm
    if after is not None:
        heads = heads._replace(W_O=heads.W_O * after.gain[..., None, None, :])
    return heads


def spread_groups(heads: HeadStack, n_heads: int) -> HeadStack:
    """Keys and values repeated for the query heads of each group."""
    if heads.W_K.shape[-3] == n_heads:
        return heads
    gain = heads.k_gain
    if gain is not None and gain.ndim == heads.W_K.ndim - 1:  # a joint norm's
        heads = heads._replace(k_gain=repeat_heads(gain, n_heads, axis=-2))
    return heads._replace(
        W_K=repeat_heads(heads.W_K, n_heads, axis=-3),
        W_V=repeat_heads(heads.W_V, n_heads, axis=-3),
        b_K=None if heads.b_K is None else repeat_heads(heads.b_K, n_heads, axis=-2),
        b_V=None if heads.b_V is None else repeat_heads(heads.b_V, n_heads, axis=-2),
    )


def repeat_heads(x: Float[Array, "*shape"], n_heads: int, axis: int) -> Float[Array, "*out"]:
    """Entry ``h // (n_heads / size)`` of an axis for every h below ``n_heads``."""
    size = x.shape[axis]
    return x if size == n_heads else jnp.repeat(x, n_heads // size, axis=axis)


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
    k: Float[Array, "n_heads n_ctx d_head"],
    smear: Float[Array, " n_heads"],
    src: Int[Array, " n_ctx"] | None = None,
) -> Float[Array, "n_heads n_ctx d_head"]:
    """Smeared keys: ``k_j <- σ(α) k_j + (1 - σ(α)) k_{j-1}``; the first key is untouched.

    Padding in front moves the first key to where its position ``src`` is 0.

    Source: induction-heads paper, "smeared key" architecture.
    """
    own = jax.nn.sigmoid(smear)[:, None, None]
    previous = jnp.concatenate([k[:, :1], k[:, :-1]], axis=1)
    if src is not None:
        previous = jnp.where((src == 0)[None, :, None], k, previous)
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
    mixed = mix_values(exponentials, at_least_single(v)) / total[..., None]
    return mixed.astype(v.dtype), (exponentials / total[..., None]).astype(v.dtype)


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


@documented
class LayerCache(NamedTuple):
    """Key-value cache of one layer, of capacity ``n_max``; a `Cache` has a leading axis of layers.

    Attributes:
        keys: As projected: smearing and rotation come after, since both need neighbours or
            positions.
        values: As projected.
    """

    keys: Float[Array, "*n_layers n_heads n_max d_head"]
    values: Float[Array, "*n_layers n_heads n_max d_value"]


@documented
class Cache(NamedTuple):
    """Key-value cache of all layers.

    Attributes:
        layers: Keys and values, with a leading axis of layers.
        length: Number of positions filled, which is the position of the next token.
    """

    layers: LayerCache
    length: Int[Array, ""]


def empty_cache(model: Model, n_max: int) -> Cache:
    """An empty cache of capacity ``n_max``; the caller must not write more positions."""
    W_K, W_V = model.blocks.attention.W_K, model.blocks.attention.W_V
    d_head = W_K.shape[-1]
    # One row for each query head: an edit of keys may differ between the heads of a group.
    shape = (model.n_layers, model.n_heads, n_max)
    return Cache(
        LayerCache(
            jnp.zeros((*shape, d_head), W_K.dtype), jnp.zeros((*shape, W_V.shape[-1]), W_V.dtype)
        ),
        jnp.zeros((), jnp.int32),
    )


def append(
    cache: LayerCache,
    length: Int[Array, ""],
    k: Float[Array, "n_heads n_ctx d_head"],
    v: Float[Array, "n_heads n_ctx d_value"],
) -> LayerCache:
    """One layer's cache with the keys and values of new positions appended."""
    start = (jnp.zeros_like(length), length, jnp.zeros_like(length))
    return LayerCache(
        jax.lax.dynamic_update_slice(cache.keys, k, start),
        jax.lax.dynamic_update_slice(cache.values, v, start),
    )
