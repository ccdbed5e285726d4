"""Sums of paths to one logit, each from one linear pass: by source token, last head, and neuron.

Single paths through MLPs are many and partly cancel. A group is exact however many paths it holds:
a forward pass with one stream for each source splits the logit by source and by the last head of
the path; a backward pass, the logit's direction carried to every place, splits what flows through
any node. Both run through the dressed stream of a `FrozenModel`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.losses.neurons import neuron_activations
from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    head_constants,
    head_writes,
)
from circuitax.kernel.checks import check_index
from circuitax.kernel.compiled import compiled
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
    check_index("position", position, n_ctx)
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
    n_layers, n_ctx = frozen.A.shape[0], frozen.A.shape[2]
    check_index("position", position, n_ctx)
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
