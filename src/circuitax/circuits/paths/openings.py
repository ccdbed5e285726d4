"""Opening of a gate: a hidden unit's pre-activation as a logit of the model cut before it.

Frozen gates say what is moved, not why they are open. A pre-activation is affine in the stream that
its MLP reads, so that it splits like a logit: by source token, by head, into paths. Attention
scores, which are bilinear, are split by `attention.score_terms`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.losses.neurons import mlp_streams
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.circuits.paths.frozen_norms import FrozenNorms
from circuitax.circuits.paths.groups import carried_back
from circuitax.circuits.paths.read_out import ReadOut
from circuitax.circuits.weights.folding import fold_read
from circuitax.kernel.checks import check_index
from circuitax.kernel.compiled import compiled
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run


@compiled()
def cut_before_gates(run: Run, frozen: FrozenModel, layer: int | Int[Array, ""]) -> FrozenModel:
    """A frozen model up to what one MLP reads, whose logits are the pre-activations there.

    Source: ours; docs/methods/mlps.md.
    """
    spec, blocks = run.model.spec, run.model.blocks
    if blocks.mlp is None:
        raise ValueError("run.model.blocks.mlp is None: the model has no gates")
    n_layers = frozen.A.shape[0]
    check_index("layer", layer, n_layers)
    layers = jnp.arange(n_layers)
    # Later layers stay, without effect, so that the programs of all layers are one.
    heads = layers < layer if spec.parallel else layers <= layer
    maps = frozen.maps
    if maps is not None:
        maps = maps._replace(
            W_out=_where(layers < layer, maps.W_out), constant=_where(layers < layer, maps.constant)
        )
    norms = frozen.norms
    if norms is not None:
        # The MLP reads the stream behind the first norm of its layer.
        passed = jnp.stack([layers <= layer, layers < layer], axis=1)
        centre, scale_of, gain, offset = (
            jax.vmap(_where, in_axes=1, out_axes=1)(passed, x) for x in norms
        )
        neither = 1 - passed.astype(gain.dtype)[..., None]
        norms = FrozenNorms(centre, scale_of + neither, gain + neither, offset)
    return frozen._replace(
        A=_where(heads, frozen.A),
        b_V=None if frozen.b_V is None else _where(heads, frozen.b_V),
        b_O=None if frozen.b_O is None else _where(heads, frozen.b_O),
        mlps=None if frozen.mlps is None else _where(layers < layer, frozen.mlps),
        maps=maps,
        norms=norms,
        read_out=gate_read_out(run, layer),
    )


def gate_read_out(run: Run, layer: int | Int[Array, ""]) -> ReadOut:
    """The read-out of one MLP's pre-activations from its stream, in the place of logits."""
    spec, blocks = run.model.spec, run.model.blocks
    if blocks.mlp is None:
        raise ValueError("run.model.blocks.mlp is None: the model has no gates")
    check_index("layer", layer, spec.n_layers)
    mlp, norm = jax.tree.map(lambda leaf: leaf[layer], (blocks.mlp, blocks.mlp_norm))
    W, b = (mlp.W_in, mlp.b_in) if mlp.W_gate is None else (mlp.W_gate, mlp.b_gate)
    W, b = fold_read(W, b, spec.read_norm, norm)
    scales = run.trace.scales.mlp
    scale = None if spec.read_norm == Norm.none or scales is None else scales[layer]
    return ReadOut(scale, W, b)


class Opening(NamedTuple):
    """A pre-activation split two ways; each with ``bias`` sums to it.

    Attributes:
        by_source: All paths from each token; the last entry all paths from biases.
        by_last: Paths by their last head, ``[n_layers, n_heads]``.
        direct: Paths past no head; completes ``by_last``.
        bias: Of the pre-activation itself, the offset of its norm included.
    """

    by_source: Float[Array, " n_sources"]
    by_last: Float[Array, "n_layers n_heads"]
    direct: Float[Array, ""]
    bias: Float[Array, ""]


@compiled()
def opening(
    run: Run,
    frozen: FrozenModel,
    layer: int | Int[Array, ""],
    unit: int | Int[Array, ""],
    position: int | Int[Array, ""],
) -> Opening:
    """The pre-activation of one hidden unit at one position, split over the dressed stream.

    Source: ours; docs/methods/mlps.md.
    """
    cut = cut_before_gates(run, frozen, layer)
    check_index("unit", unit, cut.read_out.W_U.shape[1])
    direction = cut.read_out.W_U[:, unit]
    whole = carried_back(cut, position, direction)
    ends = carried_back(cut, position, direction, through_heads=False)
    total = mlp_streams(run)[layer, position] @ whole.entering[-1, position]
    sources = (cut.embedding * whole.entering[0]).sum(axis=1)
    heads = run.trace.head_outputs
    if heads is None:
        raise ValueError("run.trace.head_outputs is None: make the run with outputs=True")
    acting = jnp.arange(heads.shape[0]) < layer + (0 if run.model.spec.parallel else 1)
    by_last = jnp.einsum("lhd,ld->lh", heads[:, :, position], ends.written[:, position])
    by_last = _where(acting, by_last)
    bias = jnp.zeros_like(total) if cut.read_out.b_U is None else cut.read_out.b_U[unit]
    by_source = jnp.append(sources, total - sources.sum())
    return Opening(by_source, by_last, total - by_last.sum(), bias)


def _where(kept: Bool[Array, " n_layers"], x: Float[Array, "n_layers *rest"]) -> Array:
    """The array with other layers set to 0."""
    return x * kept.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
