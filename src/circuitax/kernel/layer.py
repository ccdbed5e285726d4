"""One layer of the forward pass: norm, attention, write, norm, MLP, write.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

import operator
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel import attention
from circuitax.kernel.attention import LayerCache, append, repeat_heads, turn
from circuitax.kernel.interventions import Activations, Interventions, NormScales
from circuitax.kernel.mlp import Gates, Tap, gates_of, hidden_units, write_units
from circuitax.kernel.norm import Norm, Rule, apply_norm, norm_scale
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import Blocks, HeadStack, NormWeights


class Layer(NamedTuple):
    """Everything that differs between layers: one slice of each array."""

    weights: Blocks
    edit: Interventions
    cache: LayerCache | None
    local: Bool[Array, ""] | None = None
    """Whether the layer is one of ``spec.local_layers``, where some are not."""


class Place(NamedTuple):
    """The positions of the text that this pass computes; the same for every layer."""

    dest: Int[Array, " n_ctx"]
    start: Int[Array, ""]
    vectors: Float[Array, "n_ctx d_model"] | None
    """Position vectors, when the scheme has any."""
    mask: Bool[Array, " n_ctx"] | None = None
    """Where the text is; False where it is padded."""


class LayerTrace(NamedTuple):
    """A layer's part of the trace, and its cache."""

    entering: Float[Array, "n_ctx d_model"]
    pattern: Float[Array, "n_heads dest src"]
    scales: NormScales
    head_outputs: Float[Array, "n_heads n_ctx d_model"] | None
    mlp_output: Float[Array, "n_ctx d_model"] | None
    cache: LayerCache | None
    gates: Gates | None
    inside: Activations | None


def apply_layer(
    stream: Float[Array, "n_ctx d_model"],
    at: Layer,
    place: Place,
    spec: TransformerSpec,
    outputs: bool,
    rule: Rule,
) -> tuple[Float[Array, "n_ctx d_model"], LayerTrace]:
    """The stream after one layer, and the layer's trace.

    ``X' = X + Σ_h A^h N(X) W_V^h W_O^h`` and ``X'' = X' + MLP(N(X'))``; the parallel form reads
    ``MLP(N(X))``. Post-LN is ``X' = N(X + Σ_h A^h X W_V^h W_O^h)`` and ``X'' = N(X' + MLP(X'))``.

    Source: S0 section 2.2; S0 Definition 6 and S2 for post-LN.
    """
    blocks, edit = at.weights, at.edit

    def normed(x: Array, norm: Norm, weights: NormWeights | None, name: str) -> tuple[Array, Array]:
        held, add = getattr(edit.scales, name), getattr(edit.scale_add, name)
        return apply_norm(x, norm, spec.norm_eps, weights, held, add, rule)

    seen: dict[str, Array] = {}

    def tap(name: str, y: Array) -> Array:
        keep, add = getattr(edit.keep, name), getattr(edit.add, name)
        y = y if keep is None else keep * y
        seen[name] = y if add is None else y + add
        return seen[name]

    entering = edited(stream, edit.stream_keep, edit.stream_add)
    read, scale = normed(entering, spec.read_norm, blocks.attention_norm, "attention")
    mixed, pattern, cache = _attend(blocks.attention, read, at, place, spec, rule, tap)
    W_O, b_O, post_scale = blocks.attention.W_O, blocks.attention.b_O, None
    if blocks.attention_post_norm is not None:
        post_scale = edit.scales.attention_post
        if post_scale is None:
            written = attention.write_heads(mixed, W_O, b_O)
            post_scale = rule(norm_scale)(written, spec.norm, spec.norm_eps)
        if edit.scale_add.attention_post is not None:
            post_scale = post_scale + edit.scale_add.attention_post
        # The norm of a sum over heads is linear in each head, up to a divisor that they share.
        W_O = W_O * blocks.attention_post_norm.gain[None, None, :]
        divided = rule(operator.truediv)(mixed, post_scale[None, :, None])
        mixed = divided.astype(mixed.dtype)
    if edit.head_keep is not None:
        mixed = edit.head_keep[..., None] * mixed
    stream = entering + rule(attention.write_heads)(mixed, W_O, b_O)
    heads = attention.head_outputs(mixed, W_O) if outputs else None
    if edit.head_add is not None:
        stream = stream + edit.head_add.sum(axis=0)
        heads = None if heads is None else heads + edit.head_add
    if spec.post_ln:
        stream, scale = normed(stream, spec.norm, blocks.attention_norm, "attention")
    stream = tap("mid", stream)
    gates: Gates | None = None
    mlp = mlp_scale = mlp_post = None
    if blocks.mlp is not None:
        source = entering if spec.parallel else stream
        read, mlp_scale = normed(source, spec.read_norm, blocks.mlp_norm, "mlp")
        read = edited(read, None, edit.mlp_read_add)
        units = hidden_units(
            blocks.mlp, read, spec.activation, edit.gates, edit.gate_share, rule, tap
        )
        mlp = write_units(blocks.mlp, units.post, rule)
        if outputs:
            gates = edit.gates or gates_of(blocks.mlp, read, spec.activation)
        if blocks.mlp_post_norm is not None:
            mlp, mlp_post = normed(mlp, spec.norm, blocks.mlp_post_norm, "mlp_post")
        mlp = edited(mlp, edit.mlp_keep, edit.mlp_add)
        stream = stream + mlp
        if spec.post_ln:
            stream, mlp_scale = normed(stream, spec.norm, blocks.mlp_norm, "mlp")
    scales = NormScales(scale, mlp_scale, attention_post=post_scale, mlp_post=mlp_post)
    mlp = mlp if outputs else None
    inside = Activations(**seen) if outputs else None
    return stream, LayerTrace(entering, pattern, scales, heads, mlp, cache, gates, inside)


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
    rule: Rule,
    tap: Tap,
) -> tuple[
    Float[Array, "n_heads n_ctx d_value"],
    Float[Array, "n_heads n_ctx n_src"],
    LayerCache | None,
]:
    """Mixed values, the pattern that mixed them, and the cache with this layer's keys."""
    edit = at.edit
    v = tap("v", _read(read, weights.W_V, weights.b_V, edit.value_add, spec.n_heads, rule))
    if edit.all_patterns is not None:
        mixed = attention.mix_values(edit.all_patterns, v)
        return tap("z", mixed), edit.all_patterns, None
    # Shortformer adds positions after the norm, and not to the values or the stream.
    matched = read
    if spec.positions.in_queries_and_keys and place.vectors is not None:
        matched = read + place.vectors
    q = tap("q", _read(matched, weights.W_Q, weights.b_Q, edit.query_add, spec.n_heads, rule))
    k = tap("k", _read(matched, weights.W_K, weights.b_K, edit.key_add, spec.n_heads, rule))
    cache = None
    if at.cache is not None:
        cache = append(at.cache, place.start, k, v)
        k, v = cache
    src = place.dest
    if at.cache is not None:
        src = jnp.arange(k.shape[1], dtype=place.dest.dtype)
    if weights.smear is not None:
        k = attention.smear_keys(k, weights.smear, None if place.mask is None else src)
    if weights.q_gain is not None and weights.k_gain is not None:
        q = _normed(q, weights.q_gain, spec, rule)
        k = _normed(k, weights.k_gain, spec, rule)
    local = True if at.local is None else at.local
    q = turn(q, place.dest, spec, local)
    k = turn(k, src, spec, local)
    scores = rule(attention.attention_scores)(q, k, spec.scale)
    scores = tap("scores", rule(attention.cap)(scores, spec.score_cap))
    mask = attention.causal_mask(place.dest, src, spec.causal, _window(spec, at.local))
    if place.mask is not None:
        mask = mask & place.mask[:, None] & place.mask[None, :]
    if edit.patterns is not None and edit.pattern_frozen is not None:
        computed = attention.attention_pattern(scores, mask)
        pattern = jnp.where(edit.pattern_frozen[:, None, None], edit.patterns, computed)
        return tap("z", attention.mix_values(pattern, v)), pattern, cache
    mixed, pattern = rule(attention.attend)(scores, mask, v)
    return tap("z", mixed), pattern, cache


def _read(
    x: Float[Array, "n_ctx d_model"],
    W: Float[Array, "n_groups d_model d_out"],
    b: Float[Array, "n_groups d_out"] | None,
    add: Float[Array, "n_heads #n_ctx d_model"] | None,
    n_heads: int,
    rule: Rule,
) -> Float[Array, "n_heads n_ctx d_out"]:
    y = repeat_heads(rule(attention.project)(x, W, b), n_heads, axis=0)
    # The map is linear, so the part that heads share is projected once.
    if add is None:
        return y
    return y + jnp.einsum("htd,hdk->htk", add, repeat_heads(W, n_heads, axis=0))


def _normed(
    x: Float[Array, "n_heads n_ctx d_head"],
    gain: Float[Array, "*heads d_head"],
    spec: TransformerSpec,
    rule: Rule,
) -> Float[Array, "n_heads n_ctx d_head"]:
    if not spec.joint_qk_norm:
        weights = NormWeights(gain[None, None, :])
        return apply_norm(x, Norm.rmsnorm, spec.norm_eps, weights, rule=rule)[0]
    # All heads read a key of a group equally often, so that repeated keys have the groups' mean.
    rows = jnp.moveaxis(x, 0, 1)
    joint = rows.reshape(rows.shape[0], -1)
    normed = apply_norm(joint, Norm.rmsnorm, spec.norm_eps, rule=rule)[0].reshape(rows.shape)
    return jnp.moveaxis(normed, 0, 1) * repeat_heads(gain, spec.n_heads, axis=0)[:, None, :]


def _window(spec: TransformerSpec, local: Bool[Array, ""] | None) -> int | Int[Array, ""] | None:
    if spec.window is None or local is None:
        return spec.window
    return jnp.where(local, spec.window, jnp.iinfo(jnp.int32).max)
