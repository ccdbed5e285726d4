"""Ablation and patching: many edited runs of the one forward pass, vmapped over blocks of edits."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import Components
from circuitax.circuits.paths.expansion import all_paths, expand
from circuitax.circuits.sites import (
    BLOCK_ENTRIES,
    HEAD_SITES,
    SITES,
    Metric,
    asked_of,
    effects_at,
    in_front,
)
from circuitax.display.tables import NumberTable, counted, documented
from circuitax.kernel.checks import chosen_of, shortened
from circuitax.kernel.compiled import compiled
from circuitax.kernel.edits import recorded
from circuitax.kernel.forward import (
    forward,
    token_ids,
)
from circuitax.kernel.interventions import Interventions, Trace, ablate_heads, freeze
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.run import Run, check_run, unedited
from circuitax.kernel.shown import known, largest, tabled


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


def ablation_effects(
    run: Run,
    metric: Metric | None = None,
    *,
    data: Any = None,
    position: int | None = None,
    layers: Sequence[int] | None = None,
    preserve_patterns: bool = False,
) -> Effects:
    """Single ablations: the change of a metric when one head or one MLP alone writes nothing.

    Args:
        run: A run on one text or on a batch, which gives the effects an axis of texts in front.
        metric: From logits to an array, and from ``data`` too where it is given; None for the mean
            next-token loss on the text, in nats. One function is compiled once, one that is made
            anew in each call in each call.
        data: What the metric reads beside logits, such as ids of answers: arrays, with an axis of
            texts in front for a batch. Other data compile nothing anew.
        position: Where the metric reads: it is given the logits ``[d_vocab]`` of this position of
            the text, padding not counted; None for all, ``[n_ctx, d_vocab]``.
        layers: Whose heads and MLPs are tried, in this order; None for all.
        preserve_patterns: Whether attention patterns and norm scales stay as they are in the run;
            otherwise later layers react.

    Raises:
        ValueError: If a run is of an ensemble or was made with interventions, or a layer or the
            position is out of range.

    Source: framework paper and induction-heads paper, "full" and "pattern-preserving" ablation.
    """
    reading, texts = asked_of(run, metric, data, position)
    at, everywhere = chosen_of("layers", layers, run.model.n_layers), np.ones(1, bool)
    if preserve_patterns:
        held = jax.vmap(lambda trace: freeze(trace, gates=None))(in_front(run, run.trace))
        texts = texts._replace(held=held)
    sites = ["head_outputs"] if run.model.blocks.mlp is None else ["head_outputs", "mlp_outputs"]
    return Effects(*(effects_at(run, reading, texts, site, at, everywhere) for site in sites))


def patch_effects(
    run: Run,
    donor: Run,
    metric: Metric | None = None,
    *,
    site: str = "streams",
    data: Any = None,
    position: int | None = None,
    layers: Sequence[int] | None = None,
    positions: Sequence[int] | None = None,
    by_position: bool | None = None,
) -> Float[Array, "*batch_place_head_metric"]:
    """The change of a metric when one value that the run computes is that of the donor run.

    Entry ``[l, t]`` replaces the stream before layer l at position t, and ``[n_layers, t]`` the
    final stream. ``site="head_outputs"`` patches every head: entry ``[l, h]``.

    Args:
        run: A run on one text, or on a batch, which gives the effects an axis of texts in front.
        donor: Run of texts of the same length, of a model of the same sizes; made with
            ``outputs=True`` for other sites than streams and patterns.
        metric: As in `ablation_effects`.
        site: What is patched, by its name on a run: ``streams``, ``mid``, ``mlp_outputs``, ``pre``,
            ``post``; of heads ``head_outputs``, ``q``, ``k``, ``v``, ``z``, ``scores``,
            ``patterns``.
        data: As in `ablation_effects`.
        position: As in `ablation_effects`.
        layers: Which are tried, in this order; None for all.
        positions: Where it is patched, padding counted; None for all.
        by_position: Whether each position is patched by itself, which gives the effects an axis of
            positions behind those of layers and heads; None for yes where a site has no heads.

    Raises:
        ValueError: As `ablation_effects`, and if the donor's texts have another length or padding,
            its model other sizes, or the site is another name or was not recorded.

    Source: activation patching (causal tracing), every layer and position; TransformerLens.
    """
    reading, texts = asked_of(run, metric, data, position)
    if not isinstance(site, str) or site not in (*SITES, *HEAD_SITES):
        raise ValueError(f"site={shortened(site)} must be one of {', '.join(SITES + HEAD_SITES)}")
    check_donor(donor, run)
    value = recorded(donor, site)
    n_ctx = run.tokens.shape[-1]
    at = chosen_of("layers", layers, value.shape[run.is_batch])
    cells: np.ndarray = np.eye(n_ctx, dtype=bool)[chosen_of("positions", positions, n_ctx)]
    if by_position is None:
        by_position = site in SITES
    if by_position and site == "patterns":
        raise ValueError("by_position must be False for patterns: their rows are those of scores")
    texts = texts._replace(value=in_front(run, value))
    if not by_position:
        cells = np.asarray(cells.any(axis=0))
    return effects_at(run, reading, texts, site, at, cells)


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


def _by_blocks(one: Callable[[Any], Array], cells: Any, held: int) -> Array:
    """``one`` of every cell, so many at a time that their edits and logits fit."""
    n_cells = jax.tree.leaves(cells)[0].shape[0]
    size = max(1, BLOCK_ENTRIES // held)
    if size >= n_cells:
        return jax.vmap(one)(cells)
    return jax.lax.map(one, cells, batch_size=size)


def check_donor(donor: Run, run: Run) -> None:
    """Require texts of the same length and padding, and a model of the same sizes."""
    check_one_member(check_run(donor, "donor").model)
    if donor.tokens.shape != run.tokens.shape:
        raise ValueError(
            f"donor has tokens {list(donor.tokens.shape)}, must have the {list(run.tokens.shape)} "
            "of run"
        )
    known = not isinstance(run.tokens, jax.core.Tracer)
    if known and not np.array_equal(_texts_of(donor), _texts_of(run)):
        raise ValueError(
            "donor is padded elsewhere, must be padded as run: patch texts of a length"
        )
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


def _texts_of(run: Run) -> np.ndarray:
    return np.ones(run.tokens.shape, bool) if run.mask is None else np.asarray(run.mask)
