"""Sums of paths to one logit, or to a unit's gate, each from one linear pass."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.detectors import mlp_streams, neuron_activations
from circuitax.circuits.paths.components import ReadOut
from circuitax.circuits.paths.frozen import (
    FrozenModel,
    FrozenNorms,
    after_layer,
    head_constants,
    head_writes,
)
from circuitax.circuits.weights.folding import fold_read
from circuitax.kernel.compiled import compiled
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run
from circuitax.kernel.shown import shapes

Carry = tuple[Array, Array, Array]


class PathGroups(NamedTuple):
    """Sums of paths to one logit; ``by_head.sum()`` is the logit without ``b_U``.

    Attributes:
        by_head: Rows are the last head of a path, layer by layer, behind row 0 of the paths without
            heads; columns are sources: column 0 all biases, column ``1 + s`` the token at s with
            its position vector.
        one_head: The paths through exactly one head, by head and source token: single dressed
            paths. Zero after the position read.
    """

    by_head: Float[Array, "n_last n_sources"]
    one_head: Float[Array, "n_layers n_heads n_ctx"]

    @property
    def by_source(self) -> Float[Array, " n_sources"]:
        """Sums over all paths from each source."""
        return self.by_head.sum(axis=0)

    @property
    def by_last(self) -> Float[Array, " n_last"]:
        """Sums over all paths with the same last head."""
        return self.by_head.sum(axis=1)

    def __repr__(self) -> str:
        return shapes(self)


@compiled()
def path_groups(
    frozen: FrozenModel, position: int | Int[Array, ""], direction: Float[Array, " d_model"]
) -> PathGroups:
    """The paths to one logit in groups: by source token and last head, and those of one head.

    Source: ours; docs/methods/mlps.md.
    """
    n_layers, _, n_ctx, _ = frozen.A.shape
    ends = carried_back(frozen, position, direction, through_heads=False)
    w, here = ends.entering[-1][position], jnp.arange(n_ctx)
    each = jnp.zeros((1 + n_ctx, n_ctx, w.shape[0]), w.dtype)
    each = each.at[1 + here, here].set(frozen.embedding)
    alone = frozen.embedding  # the token of each position, past no head
    biases = jnp.zeros_like(alone)

    def step(carry: Carry, layer: Array) -> tuple[Carry, tuple[Array, Array]]:
        each, alone, biases = carry
        end = ends.written[layer][position]
        written = head_writes(frozen, layer, each)
        written = written.at[:, 0].add(head_constants(frozen, layer))
        ended = written[:, :, position] @ end
        values = jnp.einsum("sd,hdk->hsk", alone, frozen.W_V[layer])
        single = jnp.einsum("hsk,hkd,d->hs", values, frozen.W_O[layer], end)
        single = single * frozen.A[layer, :, position]
        alone, _ = after_layer(frozen, layer, alone, alone, constants=False)
        biases, _ = after_layer(frozen, layer, biases, biases)
        each, through = after_layer(frozen, layer, each, written.sum(axis=0))
        return (each + through, alone, biases), (ended, single)

    layers = jnp.arange(n_layers)
    (_, alone, biases), (ended, single) = jax.lax.scan(step, (each, alone, biases), layers)
    direct = jnp.zeros(1 + n_ctx, w.dtype).at[0].set(biases[position] @ w)
    direct = direct.at[1 + position].set(alone[position] @ w)
    return PathGroups(jnp.concatenate([direct[None], ended.reshape(-1, 1 + n_ctx)]), single)


class Directions(NamedTuple):
    """A logit's direction carried back to every place: ``stream · direction`` is what flows there.

    Attributes:
        entering: At the stream that enters each layer, and at the final one.
        written: At what the heads of a layer write; what its MLP writes meets ``entering[l + 1]``,
            in post-LN behind a norm.
    """

    entering: Float[Array, "n_layers+1 n_ctx d_model"]
    written: Float[Array, "n_layers n_ctx d_model"]

    def __repr__(self) -> str:
        return shapes(self)


@compiled("through_heads")
def carried_back(
    frozen: FrozenModel,
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    *,
    through_heads: bool = True,
) -> Directions:
    """The direction of a logit, through the frozen model backwards.

    Source: ours. It is the gradient of the logit with patterns, scales and gates held.
    """
    n_layers = frozen.A.shape[0]
    scale = frozen.read_out.scale
    w = direction if scale is None else direction / scale[position]
    final = jnp.zeros_like(frozen.embedding).at[position].set(w)

    def step(after: Array, layer: Array) -> tuple[Array, tuple[Array, Array]]:
        def writes(stream: Array, by_heads: Array) -> Array:
            """Stream after the layer: linear in both."""
            stream, by_heads = after_layer(frozen, layer, stream, by_heads, constants=False)
            return stream + by_heads

        _, back = jax.vjp(writes, after, after)
        entering, written = back(after)
        if through_heads:
            _, back_heads = jax.vjp(lambda x: head_writes(frozen, layer, x, summed=True), after)
            entering = entering + back_heads(written)[0]
        return entering, (entering, written)

    layers = jnp.arange(n_layers)
    _, (entering, written) = jax.lax.scan(step, final, layers, reverse=True)
    return Directions(jnp.concatenate([entering, final[None]]), written)


@compiled()
def neuron_flows(
    run: Run,
    frozen: FrozenModel,
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
) -> Float[Array, "n_layers n_ctx d_mlp"]:
    """Flow to a logit through each hidden unit at each position, by all paths together.

    ``h_k W_out[k] · g``, with g the logit's direction carried back to the layer's output: the sum
    of all paths through the unit, its own bias included. In one layer, units, the constant of the
    MLP and what passes it by make the logit; units of two layers share paths and do not add.

    Source: ours; gradient times activation of RelP, whose sum in one layer is exact here.
    """
    if frozen.maps is None:
        raise ValueError("frozen.maps is None: neurons need a model with MLPs, dressed")
    units = neuron_activations(run)
    after = run.trace.scales.mlp_post
    if after is not None:
        units = units / after[..., None]
    directions = carried_back(frozen, position, direction).entering[1:]
    if frozen.norms is not None:
        directions = frozen.norms.carried_back(1, directions)
    return units * jnp.einsum("lmd,ltd->ltm", frozen.maps.W_out, directions)


@compiled()
def cut_before_gates(run: Run, frozen: FrozenModel, layer: int | Int[Array, ""]) -> FrozenModel:
    """A frozen model up to what one MLP reads, whose logits are the pre-activations there.

    Source: ours; docs/methods/mlps.md.
    """
    spec, n_layers = run.model.spec, frozen.A.shape[0]
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
    mlp, norm = jax.tree.map(lambda leaf: leaf[layer], (blocks.mlp, blocks.mlp_norm))
    W, b = (mlp.W_in, mlp.b_in) if mlp.W_gate is None else (mlp.W_gate, mlp.b_gate)
    W, b = fold_read(W, b, spec.read_norm, norm)
    scales = run.trace.scales.mlp
    scale = None if spec.read_norm == Norm.none or scales is None else scales[layer]
    return ReadOut(scale, W, b)


class GateAttribution(NamedTuple):
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
def gate_attribution(
    run: Run,
    frozen: FrozenModel,
    layer: int | Int[Array, ""],
    unit: int | Int[Array, ""],
    position: int | Int[Array, ""],
) -> GateAttribution:
    """The pre-activation of one hidden unit at one position, split over the dressed stream.

    Source: ours; docs/methods/mlps.md.
    """
    cut = cut_before_gates(run, frozen, layer)
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
    return GateAttribution(by_source, by_last, total - by_last.sum(), bias)


def _where(kept: Bool[Array, " n_layers"], x: Float[Array, "n_layers *rest"]) -> Array:
    """The array with other layers set to 0."""
    return x * kept.astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
