"""The one forward pass of every transformer in this library, its input, and its loss.

Models declare parameters and call it; analyses call it with `Interventions`; generation calls it
with a `Cache`. No other forward pass exists.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import operator
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, DTypeLike, Float, Int

from circuitax.kernel.attention import Cache, cap
from circuitax.kernel.checks import shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.interventions import (
    Interventions,
    NormScales,
    Trace,
    check_edit,
    check_interventions,
)
from circuitax.kernel.layer import Layer, Place, apply_layer, edited
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.model_fields import check_options
from circuitax.kernel.norm import Norm, Rule, apply_norm, plain
from circuitax.kernel.positions import sinusoidal

# What functions of texts accept; `token_ids` says which of these are texts.
Tokens = ArrayLike | Sequence


def token_ids(
    tokens: Tokens, d_vocab: int, *, batch: bool = False, name: str = "tokens"
) -> Int[Array, "*batch n_ctx"]:
    """Token ids as a JAX array, checked."""
    ids = _as_array(tokens, name)
    if ids.ndim != 1 and not (batch and ids.ndim == 2):
        or_batch = " or a batch of them [batch, n_ctx]" if batch else "; vmap over a batch"
        raise ValueError(f"{name} has shape {ids.shape}, must be one text [n_ctx]{or_batch}")
    if not ids.size:
        raise ValueError(f"{name} has shape {ids.shape}, must have at least one token")
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"{name} has type {ids.dtype}, must be integers")
    if not isinstance(ids, jax.core.Tracer):
        # As given: without x64, ids beyond 32 bits would come back as others.
        values = np.asarray(tokens)
        for extreme in (int(values.min()), int(values.max())):
            if not 0 <= extreme < d_vocab:
                raise ValueError(f"{name} has the id {extreme}, must lie in [0, d_vocab={d_vocab})")
    # Texts on disk are often of 16 unsigned bits.
    return ids if jnp.issubdtype(ids.dtype, jnp.signedinteger) else ids.astype(jnp.int32)


def _as_array(tokens: Tokens, name: str) -> Array:
    if any(isinstance(leaf, str) for leaf in jax.tree.leaves(tokens)):
        raise ValueError(
            f"{name}={shortened(tokens)} must be ids: cx.load_tokenizer(source).encode(text).ids"
        )
    try:
        return jnp.asarray(tokens)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} is a {type(tokens).__name__}, must be integers, texts of one length: {error}"
        ) from None


def with_start(
    tokens: Int[Array, "*batch n_ctx"], start_token: int
) -> Int[Array, "*batch n_ctx+1"]:
    """The texts with the start token in front.

    Source: framework paper and induction-heads paper, ``<START>``.
    """
    start = jnp.full((*tokens.shape[:-1], 1), start_token, tokens.dtype)
    return jnp.concatenate([start, tokens], axis=-1)


def behind_start(
    texts: Int[Array, "*batch n_ctx"], start_token: int | None
) -> Int[Array, "*batch n_ctx"]:
    """Texts of the same length with the start token in front; each loses its last token."""
    return texts if start_token is None else with_start(texts[..., :-1], start_token)


def next_token_losses(
    logits: Float[Array, "*batch n_ctx d_vocab"], tokens: Int[Array, "*batch n_ctx"]
) -> Float[Array, "*batch n_ctx-1"]:
    """Cross-entropy of each next token, ``-log softmax(logits_t)[x_{t+1}]``, in nats."""
    if tokens.shape[-1] < 2:
        raise ValueError(f"n_ctx={tokens.shape[-1]} must be at least 2 to have a next token")
    # The last position has no target; carrying its logits along is cheaper than copying the rest.
    targets = jnp.roll(tokens, -1, axis=-1)
    logits = at_least_single(logits)
    shift = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    log_total = jnp.log(jnp.sum(jnp.exp(logits - shift), axis=-1))
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1) - shift
    return (log_total - picked[..., 0])[..., :-1]


# Up to so many layers are written out, as small models need to be fast on a CPU. More are scanned
# one by one: a scan of several at a time copies all weights first, unless their number divides.
_WRITTEN_OUT = 4


def forward(
    model: Model,
    tokens: Tokens,
    interventions: Interventions | None = None,
    *,
    cache: Cache | None = None,
    outputs: bool = False,
    mask: Bool[Array, " n_ctx"] | None = None,
) -> tuple[Float[Array, "n_ctx d_vocab"], Trace]:
    """Logits and trace of one sequence; vmap it over batches, interventions, members.

    ``X' = X + Σ_h A^h N(X) W_V^h W_O^h``, then ``X = X' + MLP(N(X'))``, for each layer;
    ``logits = N(X) W_U + b_U``. Options of the spec move the norms behind the additions (post-LN),
    add a norm to what is written, norms to queries and keys, windows, and bounds on scores and
    logits.

    Args:
        model: One model, not an ensemble.
        tokens: Token ids ``[n_ctx]``, at least one, as an array or a list. They lie in
            ``[0, d_vocab)``, which is not checked under jit: there an id beyond is read as the
            last one, and a negative one counts from the end.
        interventions: Edits and frozen values.
        cache: Keys and values of earlier positions, which the tokens follow; it must have room for
            them. The result has the rows of these tokens only, equal to those of the whole text,
            and ``trace.cache`` is what the next call takes.
        outputs: Also record what each head and each MLP writes, the factors of the MLPs, and
            `Activations`.
        mask: False where the text is padded, in front or behind. Positions are counted without
            padding, no head looks there, and its own rows mean nothing.

    Raises:
        ValueError: If the model is an ensemble or has weights that its spec ignores, the tokens are
            no text, the position table is too short, an intervention does not fit, or a cache comes
            with frozen patterns, a mask, or a model that is not causal.

    Source: S0 section 2.2 (pre-LN recurrence), Definitions 6 and 12; S2, "The Full Transformer".
    Differs: rows are tokens; S3 section 2 leaves out the residual around the MLP (E5).
    """
    check_one_member(model)
    ids = token_ids(tokens, model.d_vocab)
    check_edit("interventions", interventions)
    if not isinstance(cache, Cache | None):
        raise ValueError(f"cache is a {type(cache).__name__}, must be the trace.cache of a pass")
    return _forward(model, ids, interventions, cache, outputs, mask)


@compiled("outputs")
def _forward(
    model: Model,
    ids: Int[Array, " n_ctx"],
    interventions: Interventions | None,
    cache: Cache | None,
    outputs: bool,
    mask: Bool[Array, " n_ctx"] | None,
) -> tuple[Float[Array, "n_ctx d_vocab"], Trace]:
    stream, trace = final_stream(model, ids, interventions, cache=cache, outputs=outputs, mask=mask)
    edit = interventions or Interventions()
    logits, scale = unembed(model, stream, edit.scales.final, edit.scale_add.final)
    return logits, trace._replace(scales=trace.scales._replace(final=scale))


def final_stream(
    model: Model,
    tokens: Tokens,
    interventions: Interventions | None = None,
    *,
    cache: Cache | None = None,
    outputs: bool = False,
    rule: Rule = plain,
    mask: Bool[Array, " n_ctx"] | None = None,
) -> tuple[Float[Array, "n_ctx d_model"], Trace]:
    """`forward` up to its last step, `unembed`: the stream after all layers, and the trace."""
    ids = token_ids(tokens, model.d_vocab)
    layers, place, last = _prepared(model, ids.shape[0], interventions, cache, mask)
    spec, n_layers = model.spec, model.n_layers
    # A traced array cannot index a NumPy array.
    stream = jnp.asarray(model.W_E)[ids]
    if spec.positions.in_stream and place.vectors is not None:
        stream = stream + place.vectors
    stream, each = jax.lax.scan(
        lambda stream, at: apply_layer(stream, at, place, spec, outputs, rule),
        stream,
        layers,
        length=n_layers,
        unroll=n_layers if 0 < n_layers <= _WRITTEN_OUT else 1,
    )
    stream = edited(stream, *last)
    return stream, Trace(
        jnp.concatenate([each.entering, stream[None]]),
        each.pattern,
        each.scales,
        each.head_outputs,
        each.mlp_output,
        None if each.cache is None else Cache(each.cache, place.start + ids.shape[0]),
        each.gates,
        each.inside,
    )


def stream_from(
    model: Model,
    stream: Float[Array, "n_ctx d_model"],
    first: Int[Array, ""],
    interventions: Interventions | None = None,
    *,
    change: Callable[[Interventions], Interventions] | None = None,
    mask: Bool[Array, " n_ctx"] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """`final_stream` of a pass that begins with the stream before one layer, those below unseen.

    ``change`` edits further what is done in that layer, as `Interventions` of one layer.
    """
    layers, place, last = _prepared(model, stream.shape[0], interventions, None, mask)

    def after(stream: Array, at: Layer) -> Array:
        return apply_layer(stream, at, place, model.spec, False, plain)[0]

    def step(stream: Array, numbered: tuple[Array, Layer]) -> tuple[Array, None]:
        number, at = numbered
        # One number for all that vmap maps over: a branch, of which one side alone is computed.
        return jax.lax.cond(number < first, lambda stream, _: stream, after, stream, at), None

    if change is not None:
        at = jax.tree.map(lambda leaf: leaf[first][None], layers)
        own = jax.tree.map(lambda leaf: leaf[0], at._replace(edit=change(at.edit)))
        stream, first = after(stream, own), first + 1
    return edited(jax.lax.scan(step, stream, (jnp.arange(model.n_layers), layers))[0], *last)


def _prepared(
    model: Model,
    n_ctx: int,
    interventions: Interventions | None,
    cache: Cache | None,
    mask: Bool[Array, " n_ctx"] | None,
) -> tuple[Layer, Place, tuple[Array | None, Array | None]]:
    """Layers for a scan, the positions of the text, and the edit of the final stream."""
    check_one_member(model)
    check_options(model.spec, model.fields)
    spec, n_layers = model.spec, model.n_layers
    edit = interventions or Interventions()
    hidden = None if spec.d_mlp is None else (spec.mlp_depth, spec.d_mlp)
    inside = (model.d_head, model.d_value)
    check_interventions(edit, n_layers, model.n_heads, n_ctx, model.d_model, hidden, inside)
    edit = _as_weights(edit, model.W_E.dtype)
    if cache is not None and not spec.causal:
        raise ValueError("spec.causal=False must be True to continue from a cache")
    for name in ("all_patterns", "patterns"):
        if cache is not None and getattr(edit, name) is not None:
            raise ValueError(f"interventions.{name} must be None to continue from a cache")
    if cache is not None and mask is not None:
        raise ValueError("mask must be None to continue from a cache")
    start = jnp.zeros((), jnp.int32) if cache is None else cache.length
    dest = start + jnp.arange(n_ctx, dtype=jnp.int32)
    if mask is not None:
        dest = jnp.maximum(jnp.cumsum(mask, dtype=jnp.int32) - 1, 0)
    place = Place(dest, start, _position_vectors(model, dest), mask)

    # Stream edits have one entry more than there are layers: the last is for the final stream.
    keep, last_keep = _split_last(edit.stream_keep)
    add, last_add = _split_last(edit.stream_add)
    edits = edit._replace(
        stream_keep=keep,
        stream_add=add,
        scales=edit.scales._replace(final=None),
        scale_add=edit.scale_add._replace(final=None),
    )
    local = None
    if spec.local_layers is not None:
        local = jnp.asarray([spec.is_local(layer) for layer in range(n_layers)], bool)
    layers = Layer(model.blocks, edits, None if cache is None else cache.layers, local)
    return layers, place, (last_keep, last_add)


def batch_logits(
    model: Model, texts: Int[Array, "batch n_ctx"]
) -> Float[Array, "batch n_ctx d_vocab"]:
    """The logits of `forward` on a batch of texts, as used in training."""
    streams = jax.vmap(lambda text: final_stream(model, text)[0])(texts)
    logits, _ = unembed(model, streams.reshape(-1, model.d_model))
    return logits.reshape(*texts.shape, -1)


def unembed(
    model: Model,
    stream: Float[Array, "n_rows d_model"],
    scale: Float[Array, " n_rows"] | None = None,
    scale_add: Float[Array, " n_rows"] | None = None,
    rule: Rule = plain,
) -> tuple[Float[Array, "n_rows d_vocab"], Float[Array, " n_rows"]]:
    """``N(X) W_U + b_U``, the last step of `forward`, and the divisor of its norm."""
    spec = model.spec
    norm = spec.norm if spec.final_norm else Norm.none
    read, scale = apply_norm(stream, norm, spec.norm_eps, model.final_norm, scale, scale_add, rule)
    logits = rule(operator.matmul)(read, model.W_U)
    logits = logits if model.b_U is None else logits + model.b_U[None, :]
    return rule(cap)(logits, spec.logit_cap), scale


def _as_weights(edit: Interventions, dtype: DTypeLike) -> Interventions:
    """The edit in the type of the weights, which streams keep; divisors may be more precise."""

    def cast(x: Array) -> Array:
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(cast, edit._replace(scales=NormScales()))._replace(scales=edit.scales)


def _split_last(edits: Array | None) -> tuple[Array | None, Array | None]:
    return (None, None) if edits is None else (edits[:-1], edits[-1])


def _position_vectors(
    model: Model, dest: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_model"] | None:
    spec = model.spec
    if spec.positions.needs_table:
        table = jnp.asarray(model.W_pos)
        if dest.shape[0] > table.shape[0]:
            raise ValueError(
                f"tokens has n_ctx={dest.shape[0]} positions, must have at most the "
                f"{table.shape[0]} of model.W_pos"
            )
        return table[dest]
    if spec.positions.computed_from_width:
        return sinusoidal(dest, spec.d_model, model.W_E.dtype, spec.rotary_base)
    return None
