"""Passes with one site patched at a time, and what is read from them: for effects on a metric."""

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from tqdm import tqdm

from circuitax.kernel.checks import counted_index, shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.edits import replaced
from circuitax.kernel.forward import next_token_losses, stream_from, unembed
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.model import Model, check_next_tokens
from circuitax.kernel.run import Run, targets, unedited

BLOCK_ENTRIES = 2**27  # numbers held at once by edited runs: 512 MiB in float32
Metric = Callable[..., Float[Array, "*metric"]]
SITES = ("streams", "mid", "mlp_outputs", "pre", "pre_linear", "post")
HEAD_SITES = ("head_outputs", "q", "k", "v", "z", "scores", "patterns")


class Reading(NamedTuple):
    """How a number is read: known when a program is compiled."""

    metric: Metric
    position: int | None


class Texts(NamedTuple):
    """What passes of one text need; in front an axis of texts.

    Attributes:
        value: What the donor computes at the site; None for zeros.
        held: Values that stay as they are in the run.
    """

    streams: Float[Array, "place n_ctx d_model"]
    mask: Bool[Array, " n_ctx"] | None
    data: Any
    value: Array | None = None
    held: Interventions | None = None


def effects_at(
    run: Run,
    reading: Reading,
    texts: Texts,
    site: str,
    layers: list[int],
    cells: Bool[np.ndarray, "*cell n_ctx"],
) -> Float[Array, "*batch_place_head_cell_metric"]:
    """The change of what is read when a site is patched at every layer and head, for each cell."""
    model, n_ctx = run.model, run.tokens.shape[-1]
    shape = ((model.n_heads,) if site in HEAD_SITES else ()) + cells.shape[:-1]
    heads = np.arange(model.n_heads if site in HEAD_SITES else 1)
    # Of one head each cell, then of the next.
    cells = cells.reshape(-1, cells.shape[-1])
    each = (np.repeat(heads, len(cells)), np.tile(cells, (len(heads), 1)))
    rows = model.d_vocab * (n_ctx if reading.position is None else 1)
    edit = 0 if site == "streams" else math.prod(_value_shape(model, site, n_ctx))
    held = edit + rows + n_ctx * (4 * model.d_model + 2 * n_ctx)
    room = max(1, BLOCK_ENTRIES // held)
    n_texts, n_cells = texts.streams.shape[0], len(each[0])
    some_texts, some_cells = text_blocks(n_texts, n_cells * held), _blocks(n_cells, room)
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((run, texts)))

    def measured(block: tuple[np.ndarray, np.ndarray], layer: Any) -> Array:
        of_texts, of_cells = (
            jax.tree.map(lambda leaf, at=at: leaf[at], tree)
            for tree, at in zip((texts, each), block, strict=True)
        )
        return _measured(model, of_texts, layer, of_cells, site, reading)

    before = read_logits(run, reading, texts)
    blocks, at = list(itertools.product(some_texts, some_cells)), jnp.asarray(layers, int)
    if not layers:
        values = jnp.zeros((n_texts, 0, n_cells, *before.shape[1:]), before.dtype)
    else:
        if traced:
            found = [jax.lax.map(partial(measured, block), at) for block in blocks]
        else:
            work = shown(list(itertools.product(blocks, at)), f"patching {site}")
            done = [measured(block, layer) for block, layer in work]
            found = [jnp.stack(done[i : i + len(at)]) for i in range(0, len(done), len(at))]
        width = len(some_cells)
        lines = [jnp.concatenate(found[i : i + width], 2) for i in range(0, len(found), width)]
        values = jnp.moveaxis(jnp.concatenate(lines, 1)[:, :n_texts, :n_cells], 0, 1)
    values = values - before.reshape(n_texts, 1, 1, *before.shape[1:])
    values = values.reshape(n_texts, len(layers), *shape, *values.shape[3:])
    return values if run.is_batch else values[0]


def shown(work: Any, name: str) -> Iterable[Any]:
    """The work, with a bar on a terminal once it has taken two seconds."""
    bar: Iterable[Any] = tqdm(work, name, unit=" steps", delay=2, leave=False, disable=None)
    return bar


def text_blocks(n_texts: int, held: int) -> list[np.ndarray]:
    """Texts in blocks, of which each text holds so many numbers at once."""
    return _blocks(n_texts, BLOCK_ENTRIES // held)


def _blocks(size: int, room: int) -> list[np.ndarray]:
    """Indices in blocks of one size, at most ``room``; the last begins to repeat its last."""
    n_blocks = -(-size // max(1, room))
    whole = -(-size // n_blocks)
    return list(np.minimum(np.arange(n_blocks * whole), size - 1).reshape(n_blocks, whole))


def _value_shape(model: Model, site: str, n_ctx: int) -> tuple[int, ...]:
    spec = model.spec
    widths = {"q": model.d_head, "k": model.d_head, "v": model.d_value, "z": model.d_value}
    widths |= {"scores": n_ctx, "patterns": n_ctx}
    widths |= dict.fromkeys(("pre", "pre_linear", "post"), spec.d_mlp or 0)
    heads = (spec.n_heads,) if site in HEAD_SITES else ()
    return (*heads, n_ctx, widths.get(site, spec.d_model))


@compiled("site", "reading")
def _measured(
    model: Model,
    texts: Texts,
    layer: Int[Array, ""],
    cells: tuple[Int[Array, " cell"], Bool[Array, "cell #n_ctx"]],
    site: str,
    reading: Reading,
) -> Float[Array, "n_texts cell *metric"]:
    def one(text: Texts, head: Array, cell: Array) -> Array:
        own, held, change = text.streams[layer], text.held or Interventions(), None
        n_ctx = own.shape[0]
        cell = jnp.broadcast_to(cell, n_ctx)
        if site == "streams" and text.value is not None:
            own = jnp.where(cell[:, None], text.value[layer], own)
        else:
            shape = _value_shape(model, site, n_ctx)
            value = jnp.zeros(shape, own.dtype) if text.value is None else text.value[layer]
            here = jnp.zeros(shape[:-1], bool).at[head if site in HEAD_SITES else ...].set(cell)
            change = partial(replaced, site, value[None], here[None])
        stream = stream_from(model, own, layer, held, change=change, mask=text.mask)
        return read_stream(model, reading, stream, held, text)

    over_cells = jax.vmap(one, (None, 0, 0))
    return jax.vmap(over_cells, (0, None, None))(texts, *cells)


def read_stream(
    model: Model, reading: Reading, stream: Array, edit: Interventions, text: Texts
) -> Float[Array, "*metric"]:
    """The metric of a final stream; no other rows than it reads are unembedded."""
    divisors = (edit.scales.final, edit.scale_add.final)
    if reading.position is not None:
        at = _place(reading.position, stream.shape[0], text.mask)
        stream, divisors = jax.tree.map(lambda x: x[at][None], (stream, divisors))
    logits = unembed(model, stream, *divisors)[0]
    return _metric(reading, logits if reading.position is None else logits[0], text)


@compiled("reading")
def read_logits(run: Run, reading: Reading, texts: Texts) -> Float[Array, "n_texts *metric"]:
    def one(logits: Array, text: Texts) -> Array:
        if reading.position is not None:
            logits = logits[_place(reading.position, logits.shape[0], text.mask)]
        return _metric(reading, logits, text)

    return jax.vmap(one)(in_front(run, run.logits), texts)


def _metric(reading: Reading, logits: Array, text: Texts) -> Array:
    return jnp.asarray(reading.metric(logits, *(() if text.data is None else (text.data,))))


def _place(position: int, n_ctx: int, mask: Array | None) -> int | Array:
    """Where the text has its position, which padding does not count."""
    if mask is None:
        return position % n_ctx
    return jnp.argsort(~mask, stable=True)[position % mask.sum()]


def mean_loss(logits: Float[Array, "n_ctx d_vocab"], text: tuple[Array, Array | None]) -> Array:
    """The mean next-token loss on a text, of its tokens and mask."""
    tokens, mask = text
    losses = next_token_losses(logits, tokens)
    if mask is None:
        return losses.mean()
    return jnp.where(targets(mask), losses, 0).sum() / targets(mask).sum()


def asked_of(run: Run, metric: Metric | None, data: Any, position: Any) -> tuple[Reading, Texts]:
    unedited(run, batch=True)
    if metric is None:
        if data is not None or position is not None:
            raise ValueError("metric is None, must be a function to read data or a position")
        check_next_tokens(run.model)
        metric, data = mean_loss, (run.tokens, run.mask)
    elif not callable(metric):
        raise ValueError(f"metric={shortened(metric)} must be a function of the logits")
    else:
        data = jax.tree.map(jnp.asarray, data)
    if run.is_batch:
        for leaf in jax.tree.leaves(data):
            if leaf.shape[:1] != (run.n_texts,):
                raise ValueError(
                    f"data has an array of shape {leaf.shape}, must have the {run.n_texts} texts "
                    "of the batch in front"
                )
    if position is not None:
        known = run.mask is not None and not isinstance(run.mask, jax.core.Tracer)
        n_ctx = int(np.asarray(run.mask).sum(-1).min()) if known else run.tokens.shape[-1]
        counted_index("position", position, n_ctx)
        position = int(position)
    texts = Texts(*in_front(run, (run.streams, run.mask, data)))
    return Reading(metric, position), texts


def in_front(run: Run, tree: Any) -> Any:
    return tree if run.is_batch else jax.tree.map(lambda leaf: leaf[None], tree)
