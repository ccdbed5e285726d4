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
from circuitax.kernel.interventions import Interventions, Trace, freeze
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights

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
    heads = ablation.heads[:, :, None]
    edit = edit._replace(
        head_keep=1 - heads,
        head_add=None if replacement is None else heads[..., None] * replacement.heads,
    )
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
    patching all edges of a head equals patching the head.

    Args:
        change: New minus old output of the sender; readers in its own layer or before it are the
            caller's to leave out.
        edges: Receivers.
        weights: Of a model without MLP, whose reads this does not patch.
        spec: Static.
        trace: Of the run that is edited.

    Raises:
        ValueError: If the model has MLPs.

    Source: path patching, "direct" edges; TransformerLens has one edge at a time.
    """
    if weights.blocks.mlp is not None:
        raise ValueError("weights.blocks.mlp must be None: edges into MLPs cannot be patched")
    d_model = change.shape[1]
    norm = weights.blocks.attention_norm
    n_layers = trace.patterns.shape[0]
    eye = jnp.broadcast_to(jnp.eye(d_model, dtype=change.dtype), (n_layers, d_model, d_model))
    # The norm as a matrix: what a read of the change alone sees, without the offset.
    gain_only = None if norm is None else norm._replace(offset=None)
    through, _ = fold_read(eye, None, spec.norm, gain_only)
    seen = jnp.einsum("td,lde->lte", change, through)
    if trace.scales.attention is not None:
        seen = seen / trace.scales.attention[..., None]

    def into(readers: Array) -> Array:
        return readers[:, :, None, None] * seen[:, None]

    final = jnp.zeros((n_layers + 1, 1, d_model), change.dtype)
    final = jnp.broadcast_to(final, (n_layers + 1, *change.shape)).at[-1].set(edges.logits * change)
    return Interventions(
        query_add=into(edges.query),
        key_add=into(edges.key),
        value_add=into(edges.value),
        stream_add=final,
        scales=trace.scales,
    )
