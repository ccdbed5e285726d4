"""Path patching: a change of one component reaches chosen readers directly, and the rest react."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.weights.folding import check_pre_ln, fold_read
from circuitax.kernel.checks import check_index, check_range
from circuitax.kernel.interventions import Interventions
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
) -> Interventions:
    """The edit by which one reader alone sees another output of a head.

    All that comes after the reader reacts; norm scales are held, as in `patch_paths`, which takes
    several readers, and MLPs.

    Args:
        run: The run that is edited, on one text, made with ``outputs=True``.
        head: Layer and head that writes, both from 0.
        reader: Layer and head that reads, of a later layer; None for the logits.
        output: What the reader sees in the place of ``run.head_outputs[head]``, such as another
            run's; finite.
        reads: ``"query"``, ``"key"`` or ``"value"`` of the reader; of the logits there is one.

    Raises:
        ValueError: If there is no such head, the reader is not in a later layer, ``reads`` is
            another name, or for a reason of `patch_paths`.

    Source: path patching; TransformerLens.
    """
    trace, model = unedited(run).trace, run.model
    if trace.head_outputs is None:
        raise ValueError("run.trace.head_outputs is None, must be kept: run(..., outputs=True)")
    if reads not in READS:
        raise ValueError(f"reads={reads!r} must be one of {READS}")
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
    now = trace.head_outputs[head[0], head[1]]
    output = jnp.asarray(output)
    if output.shape != now.shape:
        raise ValueError(f"output has shape {output.shape}, must be {now.shape}")
    masks = jnp.zeros((3, model.n_layers, model.n_heads), now.dtype)
    if reader is not None:
        masks = masks.at[READS.index(reads), reader[0], reader[1]].set(1)
    mlps = None if model.blocks.mlp is None else jnp.zeros(model.n_layers, now.dtype)
    to_logits = jnp.asarray(float(reader is None), now.dtype)
    query, key, value = masks
    return patch_paths(run, output - now, Edges(query, key, value, to_logits, mlps))


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
