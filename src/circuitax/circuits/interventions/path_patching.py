"""Path patching: a change of one component reaches chosen readers directly, and the rest react."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.weights.folding import check_pre_ln, fold_read
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.run import Run, one_text
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


def patch_paths(
    run: Run, change: Float[Array, "n_ctx_of_change d_model"], edges: Edges
) -> Interventions:
    """The edit that carries a change of one component directly to chosen readers only.

    Everything after the readers reacts. A reader sees the change through its norm with the scale
    held, which makes it linear in the change. The returned edit holds these scales everywhere, so
    that patching all edges of a component equals patching the component.

    Args:
        run: The run that is edited, on one text.
        change: New minus old output of the sender, a head or an MLP; the caller leaves out readers
            that act before it. An MLP reads the heads of its own layer, unless the two
            are parallel.
        edges: Receivers.

    Raises:
        ValueError: If ``edges.mlps`` is missing for a model with MLPs, or given for one without, a
            shape does not fit the run, the model is post-LN, or the run is of a batch or an
            ensemble.

    Source: path patching, "direct" edges; TransformerLens has one edge at a time.
    """
    trace, spec, blocks = one_text(run).trace, run.model.spec, run.model.blocks
    check_pre_ln(run.model, "patch_paths")
    if change.shape != trace.streams.shape[1:]:
        raise ValueError(f"change has shape {change.shape}, must be {trace.streams.shape[1:]}")
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
