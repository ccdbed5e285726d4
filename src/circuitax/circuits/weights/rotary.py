"""QK circuits of rotary heads as functions of the offset to the source.

With rotary positions ``⟨q_t, k_s⟩ = q R_Δ kᵀ``, Δ = t - s, so that a head has one QK circuit for
each offset: ``W_QK(Δ) = W_Q R_Δ W_Kᵀ``. Each entry is a trigonometric polynomial in Δ: pair i of
the head's entries turns by ``f_i Δ``, so coefficients say exactly how content and offset interact.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.circuits.weights.heads import rotation
from circuitax.kernel.attention import per_head, rotary_frequencies
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.positions import Positions


class OffsetScores(NamedTuple):
    """Scores of pairs of contents, ``scale · (a_0 + Σ_i a_i cos(f_i Δ) + b_i sin(f_i Δ))``.

    Attributes:
        constant: ``a_0``: from entries of the head that do not turn.
        frequencies: Angle of one step, in radians.
    """

    constant: Float[Array, "n_layers n_heads n_dest n_src"]
    cosine: Float[Array, "n_layers n_heads n_dest n_src n_pairs"]
    sine: Float[Array, "n_layers n_heads n_dest n_src n_pairs"]
    frequencies: Float[Array, "n_layers n_pairs"]

    def at(
        self, offsets: Int[Array, " n_offsets"]
    ) -> Float[Array, "n_layers n_heads n_dest n_src n_offsets"]:
        """The scores at some offsets Δ = t - s."""
        angle = self.frequencies[:, :, None] * offsets[None, None, :].astype(self.cosine.dtype)
        turned = jnp.einsum("lhdsp,lpo->lhdso", self.cosine, jnp.cos(angle))
        turned = turned + jnp.einsum("lhdsp,lpo->lhdso", self.sine, jnp.sin(angle))
        return self.constant[..., None] + turned


def qk_at_offset(
    model: Model, offset: int | Int[Array, ""]
) -> Float[Array, "n_layers n_heads d_model d_model"]:
    """``W_QK(Δ) = scale · W_Q R_Δ W_Kᵀ`` of every head, for rows of the bare stream."""
    W_Q, W_K = _maps(model)
    turned = W_Q @ rotation(model.spec, offset, W_Q.dtype)
    return model.spec.scale * turned @ jnp.matrix_transpose(W_K)


def offset_scores(
    model: Model,
    dest: Float[Array, "*n_layers n_dest d_model"],
    src: Float[Array, "*n_layers n_src d_model"],
) -> OffsetScores:
    """Scores between contents at every offset at once, from weights alone.

    Source: ours. The rotation: RoFormer; S2, the attention chapter (docs/bibliography.md),
        "Positional encodings".
    """
    if model.spec.qk_norm:
        raise ValueError("spec.qk_norm must be False: divisors of queries depend on the content")
    spec = model.spec
    W_Q, W_K = _maps(model)
    dest, src = (jnp.broadcast_to(x, (spec.n_layers, *x.shape[-2:])) for x in (dest, src))
    q, k = (jnp.einsum("lnd,lhdk->lhnk", rows, W) for rows, W in ((dest, W_Q), (src, W_K)))
    q, k = q + _bias(model, "b_Q"), k + _bias(model, "b_K")
    q, width = spec.scale * q, spec.rotary_width
    even_q, odd_q = q[..., 0:width:2], q[..., 1:width:2]
    even_k, odd_k = k[..., 0:width:2], k[..., 1:width:2]
    pairs = "lhdp,lhsp->lhdsp"
    layers = range(spec.n_layers)
    return OffsetScores(
        jnp.einsum("lhdk,lhsk->lhds", q[..., width:], k[..., width:]),
        jnp.einsum(pairs, even_q, even_k) + jnp.einsum(pairs, odd_q, odd_k),
        jnp.einsum(pairs, even_q, odd_k) - jnp.einsum(pairs, odd_q, even_k),
        jnp.stack([rotary_frequencies(spec, q.dtype, spec.is_local(layer)) for layer in layers]),
    )


def best_offset(
    scores: Float[Array, "n_layers n_heads n_dest n_src n_offsets"],
) -> Int[Array, "n_layers n_heads"]:
    """The offset whose score is largest on average over contents, as an index of the last axis."""
    return jnp.argmax(scores.mean(axis=(2, 3)), axis=-1)


def _maps(model: Model) -> tuple[Array, Array]:
    """``W_Q`` and ``W_K`` of every head, with the gain of the norm before them."""
    check_one_member(model)
    if model.spec.positions != Positions.rotary:
        raise ValueError(f"spec.positions={model.spec.positions.value} must be rotary")
    heads, norm = per_head(model), over_heads(model.blocks.attention_norm)
    kind = model.spec.read_norm
    return fold_read(heads.W_Q, None, kind, norm)[0], fold_read(heads.W_K, None, kind, norm)[0]


def _bias(model: Model, name: str) -> Array:
    """Bias of queries or keys, from their own biases and the offset of the norm before them."""
    heads, norm = per_head(model), over_heads(model.blocks.attention_norm)
    W, b = (heads.W_Q, heads.b_Q) if name == "b_Q" else (heads.W_K, heads.b_K)
    found = fold_read(W, b, model.spec.read_norm, norm)[1]
    return jnp.zeros((1, 1, 1, 1), W.dtype) if found is None else found[:, :, None, :]
