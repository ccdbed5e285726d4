"""Ablation and patching: many edited runs of the one forward pass, batched over the edit.

What is removed is replaced by zero, by a mean over data, or by another run's value; patterns (and
norm scales) either react or are held as they were. All heads and MLPs go in one vmap.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.components import Components
from circuitax.circuits.folding import fold_read
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, Trace, ablate_heads, freeze
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import NormWeights, TransformerWeights

Metric = Callable[[Float[Array, "n_ctx d_vocab"]], Float[Array, "*metric"]]


class Ablation(NamedTuple):
    """How much of each component is replaced: 0 leaves it, 1 replaces it, between interpolates."""

    heads: Float[Array, "*cells n_layers n_heads"]
    mlps: Float[Array, "*cells n_layers"] | None = None


def each_component(weights: TransformerWeights) -> Ablation:
    """One cell for each head, then one for each MLP, with that component alone replaced."""
    n_layers, n_heads = weights.blocks.attention.W_Q.shape[-4:-2]
    n = n_layers * n_heads
    if weights.blocks.mlp is None:
        return Ablation(jnp.eye(n).reshape(n, n_layers, n_heads))
    masks = jnp.eye(n + n_layers)
    return Ablation(masks[:, :n].reshape(-1, n_layers, n_heads), masks[:, n:])


def ablation_edit(
    ablation: Ablation,
    replacement: Components | None = None,
    preserved: Trace | None = None,
) -> Interventions:
    """The edit that replaces ``y`` by ``(1 - a) y + a r``.

    Args:
        ablation: a, for one cell.
        replacement: r, what to put instead: another run's components (resample), or their mean over
            data; None for zero.
        preserved: A trace whose patterns and norm scales are held; None lets them react.

    Source: framework paper and induction-heads paper, "full" and "pattern-preserving" ablation.
    """
    edit = Interventions() if preserved is None else freeze(preserved)
    heads = ablate_heads(ablation.heads, None if replacement is None else replacement.heads)
    edit = edit._replace(head_keep=heads.head_keep, head_add=heads.head_add)
    if ablation.mlps is None:
        return edit
    mlps = ablation.mlps[:, None]
    other = None if replacement is None else replacement.mlps
    added = None if other is None else mlps[..., None] * other
    return edit._replace(mlp_keep=1 - mlps, mlp_add=added)


def ablate(
    weights: TransformerWeights,
    tokens: Int[Array, " n_ctx"],
    spec: ForwardSpec,
    ablation: Ablation,
    metric: Metric,
    *,
    replacement: Components | None = None,
    preserved: Trace | None = None,
) -> Float[Array, "cell *metric"]:
    """A metric of the logits under every ablation of a stack, in one vmap over the cells.

    Args:
        weights: One model.
        tokens: One text.
        spec: Static.
        ablation: With one axis of cells, such as `each_component`.
        metric: From logits to an array, such as a loss; what it returns is all that is kept.
        replacement: As in `ablation_edit`.
        preserved: As in `ablation_edit`.
    """

    def one(cell: Ablation) -> Array:
        edit = ablation_edit(cell, replacement, preserved)
        return metric(forward(weights, tokens, spec, edit)[0])

    return jax.vmap(one)(ablation)


def patch_stream(
    weights: TransformerWeights,
    tokens: Int[Array, " n_ctx"],
    spec: ForwardSpec,
    donor: Trace,
    metric: Metric,
) -> Float[Array, "place n_ctx *metric"]:
    """The metric when the stream before one layer, at one position, is another run's.

    Args:
        weights: One model.
        tokens: The text that is run.
        spec: Static.
        donor: Trace of the text whose stream is put in, equally long.
        metric: As in `ablate`.

    Source: activation patching (causal tracing), every layer and position.
    """
    n_places, n_ctx, _ = donor.streams.shape

    def one(place: Array, position: Array) -> Array:
        here = jnp.zeros((n_places, n_ctx), donor.streams.dtype).at[place, position].set(1)
        edit = Interventions(stream_keep=1 - here, stream_add=here[..., None] * donor.streams)
        return metric(forward(weights, tokens, spec, edit)[0])

    over_positions = jax.vmap(one, in_axes=(None, 0))
    return jax.vmap(over_positions, in_axes=(0, None))(jnp.arange(n_places), jnp.arange(n_ctx))


class Edges(NamedTuple):
    """Which readers receive a changed value: 1 takes it, 0 does not."""

    query: Float[Array, "n_layers n_heads"]
    key: Float[Array, "n_layers n_heads"]
    value: Float[Array, "n_layers n_heads"]
    logits: Float[Array, ""]
    mlps: Float[Array, " n_layers"] | None = None
    """None for a model without MLPs."""


def patch_paths(
    change: Float[Array, "n_ctx d_model"],
    edges: Edges,
    weights: TransformerWeights,
    spec: ForwardSpec,
    trace: Trace,
) -> Interventions:
    """The edit by which a change of one component reaches some readers directly, and only those.

    Everything behind the readers reacts. A reader sees the change through its norm with the scale
    held, which makes it linear in the change; hold ``scales`` in the returned edit (they are), and
    patching all edges of a component equals patching the component.

    Args:
        change: New minus old output of the sender, a head or an MLP; readers that act before it
            are the caller's to leave out. An MLP reads the heads of its own layer, unless the two
            are parallel.
        edges: Receivers.
        weights: Any transformer.
        spec: Static.
        trace: Of the run that is edited.

    Raises:
        ValueError: If ``edges.mlps`` is missing for a model with MLPs, or given for one without.

    Source: path patching, "direct" edges; TransformerLens has one edge at a time.
    """
    blocks = weights.blocks
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
    spec: ForwardSpec,
    norm: NormWeights | None,
    scale: Float[Array, "n_layers n_ctx"] | None,
    n_layers: int,
) -> Float[Array, "n_layers n_ctx d_model"]:
    """What the reads of every layer see of a change alone: no offset, and the scale held."""
    d_model = change.shape[1]
    eye = jnp.broadcast_to(jnp.eye(d_model, dtype=change.dtype), (n_layers, d_model, d_model))
    gain_only = None if norm is None else norm._replace(offset=None)
    through, _ = fold_read(eye, None, spec.norm, gain_only)
    seen = jnp.einsum("td,lde->lte", change, through)
    return seen if scale is None else seen / scale[..., None]
