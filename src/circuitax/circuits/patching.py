"""Ablation and patching: many edited runs of the one forward pass, vmapped over blocks of edits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import Components, components_of
from circuitax.circuits.paths.expansion import all_paths, expand
from circuitax.display.tables import NumberTable, counted
from circuitax.documented import documented
from circuitax.kernel.checks import shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward, next_token_losses, token_ids
from circuitax.kernel.interventions import Interventions, Trace, ablate_heads, freeze
from circuitax.kernel.model import Model, check_next_tokens
from circuitax.kernel.run import Run, one_text, unedited
from circuitax.kernel.shown import known, largest, tabled

BLOCK_ENTRIES = 2**27  # numbers held at once by edited runs: 512 MiB in float32
Metric = Callable[[Float[Array, "n_ctx d_vocab"]], Float[Array, "*metric"]]


class Ablation(NamedTuple):
    """Share of each component that is replaced: 0 leaves it, 1 replaces it, fractions mix."""

    heads: Float[Array, "*cells n_layers n_heads"]
    mlps: Float[Array, "*cells n_layers"] | None = None


@tabled
@documented
class Effects(NamedTuple):
    """Change of a metric when one component is replaced; positive where the metric grows.

    Attributes:
        heads: One for each head.
        mlps: None for a model without MLPs.
    """

    heads: Float[Array, "n_layers n_heads *metric"]
    mlps: Float[Array, "n_layers *metric"] | None = None

    def _table(self) -> NumberTable | None:
        if np.ndim(self.heads) != 2 or not known(*self):
            return None
        effects = {f"head {l}.{h}": x for (l, h), x in np.ndenumerate(np.asarray(self.heads))}
        if self.mlps is not None:
            effects |= {f"mlp {l}": x for (l,), x in np.ndenumerate(np.asarray(self.mlps))}
        names, values = list(effects), np.array(list(effects.values()))
        rows = [(names[i], [values[i]]) for (i,) in largest(values)]
        title = f"Effects of {counted(len(names), 'component')} on the metric, largest first"
        return NumberTable(title, ("change",), rows)


@compiled("metric", "preserve_patterns")
def ablation_effects(
    run: Run,
    metric: Metric | None = None,
    *,
    donor: Run | None = None,
    preserve_patterns: bool = False,
) -> Effects:
    """Single ablations: the change of a metric when one head or one MLP alone is removed.

    Args:
        run: A run on one text.
        metric: From logits to an array; None for the mean next-token loss on the text, in nats. One
            function is compiled once, one that is made anew in each call in each call.
        donor: Run of another text of equal length, of a model of the same sizes, made with
            ``outputs=True``, whose outputs take their place (resample ablation); None for zeros.
        preserve_patterns: Whether attention patterns and norm scales stay as they are in the run;
            otherwise later layers react.

    Raises:
        ValueError: If a run is of a batch or an ensemble, the run was made with interventions, or
            the donor's text has another length or its model other sizes.

    Source: framework paper and induction-heads paper, "full" and "pattern-preserving" ablation.
    """
    measure = _metric_of(unedited(run), metric)
    n_layers, n_heads = run.trace.patterns.shape[:2]
    if donor is not None:
        _check_donor(donor, run)
    values = ablated_metrics(
        run.model,
        run.tokens,
        each_component(run.model),
        measure,
        replacement=None if donor is None else components_of(donor),
        preserved=run.trace if preserve_patterns else None,
    )
    values = values - measure(run.logits)[None]
    split = n_layers * n_heads
    heads = values[:split].reshape(n_layers, n_heads, *values.shape[1:])
    return Effects(heads, None if run.model.blocks.mlp is None else values[split:])


@compiled("metric")
def patch_effects(
    run: Run, donor: Run, metric: Metric | None = None
) -> Float[Array, "place n_ctx *metric"]:
    """The change of a metric when the stream at one layer and position is the donor run's.

    Entry ``[l, t]`` replaces the stream before layer l, and ``[n_layers, t]`` the final stream.

    Args:
        run: A run on one text.
        donor: Run of the same model on another text of equal length.
        metric: From logits to an array; None for the mean next-token loss on the run's text.

    Raises:
        ValueError: As `ablation_effects`.

    Source: activation patching (causal tracing), every layer and position.
    """
    measure = _metric_of(unedited(run), metric)
    _check_donor(donor, run)
    values = patched_metrics(run.model, run.tokens, donor.trace, measure)
    return values - measure(run.logits)[None, None]


def each_component(model: Model) -> Ablation:
    """One cell for each head, then one for each MLP, with that component alone replaced."""
    n_layers, n_heads = model.n_layers, model.n_heads
    n = n_layers * n_heads
    if model.blocks.mlp is None:
        return each_head(model)
    masks = jnp.eye(n + n_layers, dtype=model.W_E.dtype)
    return Ablation(masks[:, :n].reshape(-1 if n else 0, n_layers, n_heads), masks[:, n:])


def each_head(model: Model) -> Ablation:
    """One cell for each head, with that head alone replaced; no MLP."""
    n = model.n_layers * model.n_heads
    return Ablation(jnp.eye(n, dtype=model.W_E.dtype).reshape(n, model.n_layers, model.n_heads))


def ablation_edit(
    ablation: Ablation,
    replacement: Components | None = None,
    preserved: Trace | None = None,
) -> Interventions:
    """The edit that replaces ``y`` by ``(1 - a) y + a r``.

    Source: framework paper and induction-heads paper, "full" and "pattern-preserving" ablation.
    """
    edit = Interventions() if preserved is None else freeze(preserved, gates=None)
    heads = ablate_heads(ablation.heads, None if replacement is None else replacement.heads)
    edit = edit._replace(head_keep=heads.head_keep, head_add=heads.head_add)
    if ablation.mlps is None:
        return edit
    mlps = ablation.mlps[:, None]
    other = None if replacement is None else replacement.mlps
    added = None if other is None else mlps[..., None] * other
    return edit._replace(mlp_keep=1 - mlps, mlp_add=added)


def ablated_metrics(
    model: Model,
    tokens: Int[Array, " n_ctx"],
    ablation: Ablation,
    metric: Metric,
    *,
    replacement: Components | None = None,
    preserved: Trace | None = None,
) -> Float[Array, "cell *metric"]:
    """A metric of the logits under every ablation of a stack, vmapped over blocks of cells."""
    ids = token_ids(tokens, model.d_vocab)
    return _ablated_metrics(model, ids, ablation, metric, replacement, preserved)


@compiled("metric")
def _ablated_metrics(
    model: Model,
    tokens: Int[Array, " n_ctx"],
    ablation: Ablation,
    metric: Metric,
    replacement: Components | None,
    preserved: Trace | None,
) -> Float[Array, "cell *metric"]:
    def one(cell: Ablation) -> Array:
        edit = ablation_edit(cell, replacement, preserved)
        return metric(forward(model, tokens, edit)[0])

    n_ctx = tokens.shape[0]
    held = n_ctx * (model.n_layers * model.n_heads * model.d_model + model.d_vocab)
    return _by_blocks(one, ablation, held)


def patched_metrics(
    model: Model,
    tokens: Int[Array, " n_ctx"],
    donor: Trace,
    metric: Metric,
) -> Float[Array, "place n_ctx *metric"]:
    """The metric when the stream before one layer, at one position, comes from another run.

    Source: activation patching (causal tracing), every layer and position.
    """
    return _patched_metrics(model, token_ids(tokens, model.d_vocab), donor.streams, metric)


@compiled("metric")
def _patched_metrics(
    model: Model,
    tokens: Int[Array, " n_ctx"],
    streams: Float[Array, "place n_ctx d_model"],
    metric: Metric,
) -> Float[Array, "place n_ctx *metric"]:
    n_places, n_ctx, _ = streams.shape

    def one(cell: tuple[Array, Array]) -> Array:
        place, position = cell
        here = jnp.zeros((n_places, n_ctx), streams.dtype).at[place, position].set(1)
        edit = Interventions(stream_keep=1 - here, stream_add=here[..., None] * streams)
        return metric(forward(model, tokens, edit)[0])

    cells = jnp.repeat(jnp.arange(n_places), n_ctx), jnp.tile(jnp.arange(n_ctx), n_places)
    held = n_ctx * (n_places * model.d_model + model.d_vocab)
    values = _by_blocks(one, cells, held)
    return values.reshape(n_places, n_ctx, *values.shape[1:])


def _by_blocks(one: Callable[[Any], Array], cells: Any, held: int) -> Array:
    """``one`` of every cell, so many at a time that their edits and logits fit."""
    n_cells = jax.tree.leaves(cells)[0].shape[0]
    size = max(1, BLOCK_ENTRIES // held)
    if size >= n_cells:
        return jax.vmap(one)(cells)
    return jax.lax.map(one, cells, batch_size=size)


def _metric_of(run: Run, metric: Metric | None) -> Metric:
    if metric is not None:
        if not callable(metric):
            raise ValueError(f"metric={shortened(metric)} must be a function of the logits")
        return lambda logits: jnp.asarray(metric(logits))
    check_next_tokens(run.model)
    return lambda logits: next_token_losses(logits, run.tokens).mean()


def _check_donor(donor: Run, run: Run) -> None:
    n_ctx, n_run = one_text(donor, "donor").tokens.shape[0], run.tokens.shape[0]
    if n_ctx != n_run:
        raise ValueError(f"donor is of a text of {n_ctx} tokens, must have the {n_run} of the run")
    for name in ("n_layers", "n_heads", "d_model", "d_mlp"):
        given, want = getattr(donor.model, name), getattr(run.model, name)
        # Any MLPs may stand in for others, but not none: what they write would count as zero.
        if (given is None) != (want is None) if name == "d_mlp" else given != want:
            raise ValueError(f"donor.model has {name}={given}, must have the {want} of the run's")


def head_gradients(
    run: Run,
    token: int | Int[Array, ""],
    minus: int | Int[Array, ""],
    *,
    position: int = -1,
    frozen: bool = False,
) -> Float[Array, "n_layers n_heads"]:
    """``Σ_t y_h(t) · ∂m/∂y_h(t)`` of every head h, m the lead of one logit over another.

    Source: Nanda 2023, attribution patching; here with zero for the other run.
    """
    model, trace = unedited(run).model, run.trace
    held = Interventions()
    if frozen:
        held = held._replace(all_patterns=trace.patterns, scales=trace.scales)
    if frozen and model.blocks.mlp is not None:
        if trace.mlp_outputs is None:
            raise ValueError("run.trace.mlp_outputs is None: make the run with outputs=True")
        nothing = jnp.zeros((trace.mlp_outputs.shape[0], 1), trace.mlp_outputs.dtype)
        held = held._replace(mlp_keep=nothing, mlp_add=trace.mlp_outputs)

    def lead(ablated: Float[Array, "n_layers n_heads"]) -> Float[Array, ""]:
        edit = held._replace(head_keep=ablate_heads(ablated).head_keep)
        logits = forward(model, run.tokens, edit)[0][position]
        return logits[token] - logits[minus]

    return -jax.grad(lead)(jnp.zeros(trace.patterns.shape[:2], trace.patterns.dtype))


def ablation_error(run: Run) -> Float[Array, "head n_ctx d_vocab"]:
    """Logits with a head ablated, patterns frozen, minus logits less all paths through that head.

    Source: framework paper, "freezing attention patterns" and "path expansion trick".
    """
    terms = expand(run).terms
    n_layers, n_heads = run.trace.patterns.shape[:2]
    paths = list(all_paths(n_layers, n_heads))
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    if not cells:
        return jnp.zeros((0, *run.logits.shape), run.logits.dtype)
    through = jnp.array([[cell in path for path in paths] for cell in cells], run.logits.dtype)
    without = run.logits[None] - jnp.einsum("cp,ptv->ctv", through, terms)
    removed = each_component(run.model)
    kept = ablated_metrics(
        run.model, run.tokens, removed, lambda logits: logits, preserved=run.trace
    )
    return kept - without
