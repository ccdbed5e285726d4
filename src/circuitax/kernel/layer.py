"""One layer of the forward pass: norm, attention, write, norm, MLP, write.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel import attention
from circuitax.kernel.cache import LayerCache, append
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.mlp import apply_mlp
from circuitax.kernel.norm import apply_norm
from circuitax.kernel.positions import Positions, rotate
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack


class Layer(NamedTuple):
    """Everything that differs between layers: one slice of each array."""

    weights: Blocks
    edit: Interventions
    cache: LayerCache | None


class Place(NamedTuple):
    """Which positions of the text this pass computes; the same for every layer."""

    dest: Int[Array, " n_ctx"]
    start: Int[Array, ""]
    vectors: Float[Array, "n_ctx d_model"] | None
    """Position vectors, when the scheme has any."""


class LayerTrace(NamedTuple):
    """What one layer adds to the trace, and its cache."""

    entering: Float[Array, "n_ctx d_model"]
    pattern: Float[Array, "n_heads dest src"]
    scales: NormScales
    head_outputs: Float[Array, "n_heads n_ctx d_model"] | None
    mlp_output: Float[Array, "n_ctx d_model"] | None
    cache: LayerCache | None


def apply_layer(
    stream: Float[Array, "n_ctx d_model"],
    at: Layer,
    place: Place,
    spec: TransformerSpec,
    outputs: bool,
) -> tuple[Float[Array, "n_ctx d_model"], LayerTrace]:
    """The stream after one layer, and what the layer did.

    ``X' = X + Σ_h A^h N(X) W_V^h W_O^h`` and ``X'' = X' + MLP(N(X'))``; the parallel form reads
    ``MLP(N(X))``.

    Source: S0 section 2.2.
    """
    blocks, edit = at.weights, at.edit
    entering = edited(stream, edit.stream_keep, edit.stream_add)
    read, scale = apply_norm(
        entering, spec.norm, spec.norm_eps, blocks.attention_norm, edit.scales.attention
    )
    mixed, pattern, cache = _attend(blocks.attention, read, at, place, spec)
    if edit.head_keep is not None:
        mixed = edit.head_keep[..., None] * mixed
    stream = entering + attention.write_heads(mixed, blocks.attention.W_O, blocks.attention.b_O)
    heads = attention.head_outputs(mixed, blocks.attention.W_O) if outputs else None
    if edit.head_add is not None:
        stream = stream + edit.head_add.sum(axis=0)
        heads = None if heads is None else heads + edit.head_add
    mlp = mlp_scale = None
    if blocks.mlp is not None:
        source = entering if spec.parallel else stream
        read, mlp_scale = apply_norm(
            source, spec.norm, spec.norm_eps, blocks.mlp_norm, edit.scales.mlp
        )
        read = edited(read, None, edit.mlp_read_add)
        mlp = edited(apply_mlp(blocks.mlp, read, spec.activation), edit.mlp_keep, edit.mlp_add)
        stream = stream + mlp
    scales = NormScales(scale, mlp_scale)
    return stream, LayerTrace(entering, pattern, scales, heads, mlp if outputs else None, cache)


def edited(
    y: Float[Array, "n_ctx d_model"],
    keep: Float[Array, " #n_ctx"] | None,
    add: Float[Array, "#n_ctx d_model"] | None,
) -> Float[Array, "n_ctx d_model"]:
    """``keep * y + add`` with absent factors left out."""
    if keep is not None:
        y = keep[:, None] * y
    return y if add is None else y + add


def _attend(
    weights: HeadStack,
    read: Float[Array, "n_ctx d_model"],
    at: Layer,
    place: Place,
    spec: TransformerSpec,
) -> tuple[
    Float[Array, "n_heads n_ctx d_value"],
    Float[Array, "n_heads n_ctx n_src"],
    LayerCache | None,
]:
    """Mixed values, the pattern that mixed them, and the cache with this layer's keys."""
    edit = at.edit
    v = _read(read, weights.W_V, weights.b_V, edit.value_add)
    if edit.patterns is not None and edit.pattern_frozen is None:
        return attention.mix_values(edit.patterns, v), edit.patterns, None
    # Shortformer adds positions after the norm, and not to the values or the stream.
    matched = read
    if spec.positions.in_queries_and_keys and place.vectors is not None:
        matched = read + place.vectors
    q = _read(matched, weights.W_Q, weights.b_Q, edit.query_add)
    k = _read(matched, weights.W_K, weights.b_K, edit.key_add)
    cache = None
    if at.cache is not None:
        cache = append(at.cache, place.start, k, v)
        k, v = cache
    src = jnp.arange(k.shape[1], dtype=place.dest.dtype)
    if weights.smear is not None:
        k = attention.smear_keys(k, weights.smear)
    if spec.positions == Positions.rotary:
        q = rotate(q, place.dest, spec.rotary_base)
        k = rotate(k, src, spec.rotary_base)
    scores = attention.attention_scores(q, k, spec.scale)
    mask = attention.causal_mask(place.dest, src, spec.causal)
    if edit.patterns is not None and edit.pattern_frozen is not None:
        computed = attention.attention_pattern(scores, mask)
        pattern = jnp.where(edit.pattern_frozen[:, None, None], edit.patterns, computed)
        return attention.mix_values(pattern, v), pattern, cache
    return *attention.attend(scores, mask, v), cache


def _read(
    x: Float[Array, "n_ctx d_model"],
    W: Float[Array, "n_heads d_model d_out"],
    b: Float[Array, "n_heads d_out"] | None,
    add: Float[Array, "n_heads #n_ctx d_model"] | None,
) -> Float[Array, "n_heads n_ctx d_out"]:
    y = attention.project(x, W, b)
    # The map is linear, so the part that heads share is projected once.
    return y if add is None else y + jnp.einsum("htd,hdk->htk", add, W)
