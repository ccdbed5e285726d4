"""Heads, hidden units and MLPs at single positions, chosen as the nodes of a graph of paths.

A layer has its nodes in slots, and slots come in blocks: what is computed of nodes is computed of
the blocks that have any, and most choices of as many nodes have arrays of the same shapes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.documented import documented

HEAD, UNIT, MLP, NOTHING = range(4)
SLOTS_A_BLOCK = 8
_SLOTS = 32  # of a layer at most, or a power of two times as many


@documented
class Node(NamedTuple):
    """A head, a hidden unit or an MLP at one position.

    Attributes:
        kind: ``"head"``, ``"unit"`` or ``"mlp"``.
        layer: From 0.
        which: Number of the head or the unit in its layer; 0 for an MLP.
        position: Where it writes, from 0.
    """

    kind: str
    layer: int
    which: int
    position: int

    @property
    def name(self) -> str:
        """``23.5``, ``mlp 29.n1107`` or ``mlp 29``, without the position."""
        if self.kind == "head":
            return f"{self.layer}.{self.which}"
        return f"mlp {self.layer}" + (f".n{self.which}" if self.kind == "unit" else "")


class ChosenNodes(NamedTuple):
    """The nodes by layer, each layer with as many slots.

    Attributes:
        kind: `HEAD`, `UNIT`, `MLP`, or `NOTHING` in a slot that is left empty.
        which: As in `Node`.
        position: As in `Node`.
        number: Place in the list of nodes, which is its number as a source; in a slot that is left
            empty, that of the source that has nothing.
        slot: Index of each node into the slots of all layers, one layer behind the other.
    """

    kind: Int[Array, "n_layers n_slots"]
    which: Int[Array, "n_layers n_slots"]
    position: Int[Array, "n_layers n_slots"]
    number: Int[Array, "n_layers n_slots"]
    slot: Int[Array, " n_nodes"]

    def heads(self, n_heads: int) -> Float[Array, "*layers n_slots n_heads"]:
        """1 at the head that a node is, else 0."""
        return jax.nn.one_hot(self.which, n_heads) * (self.kind == HEAD)[..., None]

    def units(self, d_mlp: int) -> Float[Array, "*layers n_slots d_mlp"]:
        """1 at the hidden units that a node is: one, or all of an MLP."""
        one = jax.nn.one_hot(self.which, d_mlp) * (self.kind == UNIT)[..., None]
        return jnp.where((self.kind == MLP)[..., None], 1.0, one)


def chosen_nodes(frozen: FrozenModel, nodes: Sequence[Node]) -> ChosenNodes:
    """The nodes in slots by layer: as many in each as there are nodes, in whole blocks."""
    _check(frozen, nodes)
    n_layers, _, n_ctx, _ = frozen.A.shape
    layers = np.array([node.layer for node in nodes], int)
    most = int(np.bincount(layers, minlength=1).max())
    n_slots = min(len(nodes), _SLOTS * 2 ** math.ceil(math.log2(max(most, _SLOTS) / _SLOTS)))
    n_slots = SLOTS_A_BLOCK * math.ceil(n_slots / SLOTS_A_BLOCK)
    kind, which, position = np.full((3, n_layers, n_slots), [[[NOTHING]], [[0]], [[0]]])
    number = np.full((n_layers, n_slots), len(nodes) + n_ctx + 1)
    slot = np.zeros(len(nodes), int)
    for i, node in enumerate(nodes):
        at = node.layer, int((layers[:i] == node.layer).sum())
        kind[at], which[at] = ("head", "unit", "mlp").index(node.kind), node.which
        position[at], number[at] = node.position, i
        slot[i] = at[0] * n_slots + at[1]
    return ChosenNodes(*map(jnp.asarray, (kind, which, position, number, slot)))


def without_nodes(frozen: FrozenModel, chosen: ChosenNodes) -> FrozenModel:
    """The model in which no path passes a chosen node."""
    _, n_heads, n_ctx, _ = frozen.A.shape
    dtype, b_V, maps = frozen.A.dtype, frozen.b_V, frozen.maps
    at = jax.nn.one_hot(chosen.position, n_ctx, dtype=dtype)
    kept = 1 - jnp.einsum("lnh,lnt->lht", chosen.heads(n_heads).astype(dtype), at)[..., None]
    if maps is not None:
        units = chosen.units(maps.W_out.shape[1]).astype(dtype)
        opened = 1 - jnp.einsum("lnm,lnt->ltm", units, at)
        if maps.hidden_factors is None:
            maps = maps._replace(factors=maps.factors * opened[:, None])
        else:
            last = maps.hidden_factors.at[:, -1].multiply(opened)
            maps = maps._replace(hidden_factors=last)
    return frozen._replace(A=frozen.A * kept, b_V=None if b_V is None else b_V * kept, maps=maps)


def _check(frozen: FrozenModel, nodes: Sequence[Node]) -> None:
    n_layers, n_heads, n_ctx, _ = frozen.A.shape
    sizes = {"head": n_heads, "mlp": 1}
    if frozen.maps is not None:
        sizes["unit"] = frozen.maps.W_out.shape[1]
    for node in nodes:
        if node.kind not in ("head", "unit", "mlp"):
            raise ValueError(f"nodes has kind={node.kind!r}, must be 'head', 'unit' or 'mlp'")
        if node.kind != "head" and frozen.maps is None:
            raise ValueError(f"frozen.maps is None: {node.name} needs a model with MLPs, dressed")
        for name, value, size in (
            ("layer", node.layer, n_layers),
            ("which", node.which, sizes[node.kind]),
            ("position", node.position, n_ctx),
        ):
            if not 0 <= value < size:
                raise ValueError(f"nodes has {node} with {name}={value}, must lie in [0, {size})")
    if len(set(nodes)) < len(nodes):
        twice = next(node for node in nodes if list(nodes).count(node) > 1)
        raise ValueError(f"nodes names {twice} more than once")
    mlps = {(node.layer, node.position) for node in nodes if node.kind == "mlp"}
    for node in nodes:
        if node.kind == "unit" and (node.layer, node.position) in mlps:
            raise ValueError(f"nodes has {node} and its MLP: choose the unit or the whole")
