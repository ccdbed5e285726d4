"""Path patching: a change of one component reaches chosen readers directly, and the rest react."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.patching import check_donor
from circuitax.circuits.sites import (
    Metric,
    Reading,
    Texts,
    asked_of,
    in_front,
    read_logits,
    read_stream,
    shown,
    text_blocks,
)
from circuitax.circuits.weights.folding import check_pre_ln, fold_read
from circuitax.kernel.checks import check_index, check_range, chosen_of, shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.edits import Index, patch_activation, patch_stream, replaced
from circuitax.kernel.forward import forward, stream_from
from circuitax.kernel.interventions import Interventions, Trace
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, unedited
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import NormWeights


class Edges(NamedTuple):
    """Readers of a changed value: 1 receives it, 0 does not.

    Attributes:
        mlps: None for a model without MLPs.
    """

    query: Float[Array, "n_layers n_heads"]
    key: Float[Array, "n_layers n_heads"]
    value: Float[Array, "n_layers n_heads"]
    logits: Float[Array, ""]
    mlps: Float[Array, " n_layers"] | None = None


READS = ("query", "key", "value")


def patch_path(
    run: Run,
    head: tuple[int, int],
    reader: tuple[int, int] | None,
    output: Float[Array, "n_ctx d_model"],
    *,
    reads: str = "value",
    between: str = "held",
) -> Interventions:
    """The edit by which one reader alone sees another output of a head.

    The reader's norm, and all that comes after the reader, react.

    Args:
        run: The run that is edited, on one text, made with ``outputs=True``.
        head: Layer and head that writes, both from 0.
        reader: Layer and head that reads, of a later layer; None for the logits.
        output: What the reader sees in the place of ``run.head_outputs[head]``, such as another
            run's; finite.
        reads: ``"query"``, ``"key"`` or ``"value"`` of the reader; of the logits there is one.
        between: What lies between the two: ``"held"`` as it was, ``"mlps"`` react and heads are
            held, or ``"free"``: all react, and the reader sees that too.

    Raises:
        ValueError: If there is no such head, the reader is not in a later layer, ``reads`` or
            ``between`` is another name, or the output has another shape or is not finite.

    Source: path patching; ``between="mlps"`` is that of Wang et al. (2022), "Interpretability in
        the wild".
    """
    trace, model = unedited(run).trace, run.model
    _check_names(reads, between)
    for name, pair in (("head", head), ("reader", reader)):
        if name == "reader" and pair is None:
            continue
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"{name}={pair!r} must be a pair (layer, head), both from 0")
        for axis, size in enumerate((model.n_layers, model.n_heads)):
            check_index(f"{name}[{axis}]", pair[axis], size)
    traced = reader is not None and isinstance(reader[0] + head[0], jax.core.Tracer)
    if reader is not None and not traced and reader[0] <= head[0]:
        raise ValueError(f"reader={reader!r} must be in a later layer than head={head!r}")
    check_range("output", output, "(-inf, inf)")
    now = run.head_outputs[head[0], head[1]]
    output = jnp.asarray(output)
    if output.shape != now.shape:
        raise ValueError(f"output has shape {output.shape}, must be {now.shape}")
    edit = _written(trace, head, output, between)
    seen = forward(model, run.tokens, edit, outputs=True)[1]
    if reader is None:
        return patch_stream(run, model.n_layers, seen.streams[-1])
    value = _tap(seen, reads)[reader[0], reader[1]]
    return patch_activation(run, TAPS[reads], reader, value)


def path_effects(
    run: Run,
    donor: Run,
    metric: Metric | None = None,
    *,
    reads: str = "value",
    between: str = "held",
    data: Any = None,
    position: int | None = None,
    writers: Sequence[int] | None = None,
    readers: Sequence[int] | None = None,
) -> Float[Array, "*batch_writer_reader_metric"]:
    """The change of a metric when one head alone sees what another wrote in the donor's run.

    Entry ``[l, h, m, g]`` is that under `patch_path` from head h of layer l to head g of layer m;
    0 where m is not a later layer. All pairs of two layers are one program.

    Args:
        run: A run on one text, or on a batch, which gives the effects an axis of texts in front;
            made with ``outputs=True``.
        donor: Run of texts of the same length, of the same model; likewise.
        metric: As in `ablation_effects`, like ``data`` and ``position``.
        reads: ``"query"``, ``"key"`` or ``"value"``: with what the second head reads.
        between: As in `patch_path`.
        data: What the metric reads beside logits.
        position: Where the metric reads.
        writers: Layers whose heads write, in this order; None for all.
        readers: Layers whose heads read, in this order; None for all.

    Raises:
        ValueError: As `patch_effects` and `patch_path`.

    Source: path patching; Wang et al. (2022), "Interpretability in the wild".
    """
    reading, texts = asked_of(run, metric, data, position)
    check_donor(donor, run)
    _check_names(reads, between)
    model, n_heads = run.model, run.model.n_heads
    first = chosen_of("writers", writers, model.n_layers)
    then = chosen_of("readers", readers, model.n_layers)
    outputs = in_front(
        run, (run.tokens, run.trace._replace(gates=None, inside=None), donor.head_outputs)
    )
    before = read_logits(run, reading, texts)
    n_texts, metric_axes = before.shape[0], before.shape[1:]
    nothing = jnp.zeros((n_heads, n_heads, *metric_axes), before.dtype)
    rows = run.tokens.shape[-1] * (model.d_model + (position is None) * model.d_vocab)
    blocks = text_blocks(n_texts, n_heads**2 * (rows + model.d_model))
    work = list(itertools.product(range(len(blocks)), first))
    lines: list[list[Array]] = [[] for _ in blocks]
    if not (first and then):
        sizes = (n_texts, len(first), n_heads, len(then), n_heads)
        values = jnp.zeros((*sizes, *metric_axes), before.dtype)
        return values if run.is_batch else values[0]
    for block, layer in shown(work, f"paths into {reads}"):
        at = blocks[block]
        some, given = jax.tree.map(lambda leaf, at=at: leaf[at], (texts, outputs))
        seen = _seen(model, given, some.mask, jnp.asarray(layer), reads, between)
        found = [
            _read_by(model, some, seen, jnp.asarray(m), TAPS[reads], reading)
            - before[at].reshape(len(at), 1, 1, *metric_axes)
            if m > layer
            else jnp.broadcast_to(nothing, (len(at), *nothing.shape))
            for m in then
        ]
        lines[block].append(jnp.stack(found, 2))  # text, writer, layer of readers, reader
    values = jnp.concatenate([jnp.stack(line, 1) for line in lines])[:n_texts]
    return values if run.is_batch else values[0]


TAPS = {"query": "q", "key": "k", "value": "v"}
BETWEEN = ("held", "mlps", "free")


def _check_names(reads: str, between: str) -> None:
    for name, given, allowed in (("reads", reads, READS), ("between", between, BETWEEN)):
        if given not in allowed:
            raise ValueError(f"{name}={shortened(given)} must be one of {allowed}")


def _written(
    trace: Trace, head: tuple[Index, Index], output: Float[Array, "n_ctx d_model"], between: str
) -> Interventions:
    """The edit by which a head writes as told, and heads and MLPs behind it as ``between`` says."""
    now = trace.head_outputs
    if now is None:
        raise ValueError("run.trace.head_outputs is None, must be kept: run(..., outputs=True)")
    one = jnp.zeros((*now.shape[:2], 1), now.dtype).at[head].set(1)
    if between == "free":
        return Interventions(head_keep=1 - one, head_add=one[..., None] * output[None, None])
    edit = Interventions(head_keep=0 * one, head_add=now.at[head].set(output))
    if between == "mlps" or trace.mlp_outputs is None:
        return edit
    still = jnp.zeros((now.shape[0], 1), now.dtype)
    return edit._replace(mlp_keep=still, mlp_add=trace.mlp_outputs)


def _tap(trace: Trace, reads: str) -> Float[Array, "n_layers n_heads n_ctx width"]:
    value: Array = getattr(trace.inside, TAPS[reads])
    return value


@compiled("reads", "between")
def _seen(
    model: Model,
    texts: tuple[Int[Array, "n_texts n_ctx"], Trace, Float[Array, "n_texts n_layers n_heads n d"]],
    masks: Bool[Array, "n_texts n_ctx"] | None,
    layer: Int[Array, ""],
    reads: str,
    between: str,
) -> Float[Array, "n_texts writer n_layers n_heads n_ctx width"]:
    """Queries, keys or values of all heads once each head of a layer has written the donor's."""

    def one(text: tuple[Array, Trace, Array], mask: Array | None, head: Array) -> Array:
        tokens, trace, donor = text
        edit = _written(trace, (layer, head), donor[layer, head], between)
        return _tap(forward(model, tokens, edit, outputs=True, mask=mask)[1], reads)

    over_heads = jax.vmap(one, (None, None, 0))
    return jax.vmap(over_heads, (0, 0, None))(texts, masks, jnp.arange(model.n_heads))


@compiled("tap", "reading")
def _read_by(
    model: Model,
    texts: Texts,
    seen: Float[Array, "n_texts writer n_layers n_heads n_ctx width"],
    layer: Int[Array, ""],
    tap: str,
    reading: Reading,
) -> Float[Array, "*text_writer_reader_metric"]:
    def one(text: Texts, value: Array, head: Array) -> Array:
        here = jnp.zeros(value.shape[1:-1], bool).at[head].set(True)
        change = partial(replaced, tap, value[layer][None], here[None])
        stream = stream_from(model, text.streams[layer], layer, change=change, mask=text.mask)
        return read_stream(model, reading, stream, Interventions(), text)

    over_readers = jax.vmap(one, (None, None, 0))
    over_writers = jax.vmap(over_readers, (None, 0, None))
    return jax.vmap(over_writers, (0, 0, None))(texts, seen, jnp.arange(model.n_heads))


def patch_paths(
    run: Run, change: Float[Array, "n_ctx_of_change d_model"], edges: Edges
) -> Interventions:
    """The edit that carries a change of one component directly to chosen readers only.

    Source: path patching, "direct" edges; TransformerLens has one edge at a time.
    """
    trace, spec, blocks = unedited(run).trace, run.model.spec, run.model.blocks
    check_pre_ln(run.model, "patch_paths")
    for name in ("query", "key", "value"):
        shape, want = getattr(edges, name).shape, trace.patterns.shape[:2]
        if shape != want:
            raise ValueError(f"edges.{name} has shape {shape}, must be {want}")
    if (blocks.mlp is None) != (edges.mlps is None):
        need = "must be None: the model has no MLPs" if blocks.mlp is None else "must not be None"
        raise ValueError(f"edges.mlps {need} (zeros leave them unpatched)")
    n_layers = trace.patterns.shape[0]
    seen = _through_norm(change, spec, blocks.attention_norm, trace.scales.attention, n_layers)

    def into(readers: Array) -> Array:
        return readers[:, :, None, None] * seen[:, None]

    mlp_read_add = None
    if edges.mlps is not None:
        read = _through_norm(change, spec, blocks.mlp_norm, trace.scales.mlp, n_layers)
        mlp_read_add = edges.mlps[:, None, None] * read
    final = jnp.zeros((n_layers + 1, *change.shape), change.dtype)
    return Interventions(
        query_add=into(edges.query),
        key_add=into(edges.key),
        value_add=into(edges.value),
        mlp_read_add=mlp_read_add,
        stream_add=final.at[-1].set(edges.logits * change),
        scales=trace.scales,
    )


def _through_norm(
    change: Float[Array, "n_ctx d_model"],
    spec: TransformerSpec,
    norm: NormWeights | None,
    scale: Float[Array, "n_layers n_ctx"] | None,
    n_layers: int,
) -> Float[Array, "n_layers n_ctx d_model"]:
    """The change of every layer's reads due to one component: no offset, and the scale frozen."""
    d_model = change.shape[1]
    eye = jnp.broadcast_to(jnp.eye(d_model, dtype=change.dtype), (n_layers, d_model, d_model))
    gain_only = None if norm is None else norm._replace(offset=None)
    through, _ = fold_read(eye, None, spec.norm, gain_only)
    seen = jnp.einsum("td,lde->lte", change, through)
    return seen if scale is None else seen / scale[..., None]
