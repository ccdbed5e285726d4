"""All paths to one logit as a graph of a few chosen nodes: each edge carries a part of it.

A path passes some of the chosen heads, hidden units and MLPs, in order, and counts to the edges
between one and the next, whatever else lies between them. So the values of the edges are sums of
paths: what flows into a node flows out of it, and the edges into the logit add up to it, whichever
nodes are chosen. One backward pass with a direction for each node finds all edges.

Why a node is open is a second question, which the same pass answers: what the input of a gate, or a
difference of scores, comes from (`Questions`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import (
    FrozenMLPs,
    FrozenModel,
    after_layer,
    head_constants,
    head_writes,
    mlp_units,
)
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.indices import check_index
from circuitax.kernel.shown import shapes

HEAD, UNIT, MLP = 0, 1, 2


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


class Questions(NamedTuple):
    """Numbers that are linear in the stream at one layer, to be split by source and node.

    Attributes:
        layer: Where each is read.
        behind_heads: 1 where it is read from what the MLP of the layer reads; 0 where from what
            heads read.
        directions: ``Σ_t stream_t · directions_t`` is the number, without its own bias.
    """

    layer: Int[Array, " n_questions"]
    behind_heads: Float[Array, " n_questions"]
    directions: Float[Array, "n_questions n_ctx d_model"]


class PathGraph(NamedTuple):
    """Edges between chosen nodes, and the writes of the nodes.

    Attributes:
        edges: Sums of paths; rows are where an edge ends: the nodes as given, then the logit;
            columns where it begins: the nodes, then the tokens with their position vectors, then
            all biases. The row of a node and its column have one sum, that of all paths through it.
        asked: The same columns for each question: what it comes from.
        written: What each node adds to the stream, biases of an MLP not counted: these enter behind
            it.
    """

    edges: Float[Array, "n_nodes+1 n_sources"]
    asked: Float[Array, "n_questions n_sources"]
    written: Float[Array, "n_nodes d_model"]

    def __repr__(self) -> str:
        return shapes(self)


class _Chosen(NamedTuple):
    """The nodes as arrays."""

    kind: Int[Array, " n_nodes"]
    layer: Int[Array, " n_nodes"]
    which: Int[Array, " n_nodes"]
    position: Int[Array, " n_nodes"]

    def heads(self) -> Array:
        """1 for heads, else 0."""
        return self.kind == HEAD

    def head(self) -> Array:
        """Indices of heads, 0 for other nodes."""
        return jnp.where(self.heads(), self.which, 0)

    def units(self, d_mlp: int) -> Float[Array, "n_nodes d_mlp"]:
        """Hidden units of each node: one, all for an MLP, none for a head."""
        one = self.which[:, None] == jnp.arange(d_mlp)[None, :]
        return jnp.where(
            (self.kind == UNIT)[:, None],
            one,
            jnp.broadcast_to((self.kind == MLP)[:, None], one.shape),
        ).astype(float)


def path_graph(
    frozen: FrozenModel,
    nodes: Sequence[Node],
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    questions: Questions | None = None,
) -> PathGraph:
    """The graph of all paths to one logit over the nodes that are chosen.

    An edge u → v is the sum of all paths whose next chosen node behind u is v. With x_u what flows
    into u, written as W_u of the stream, ``edge(u, v) = Σ_t (W_u x_u)_t · r_v,t``, where r_v is the
    direction that v reads, carried back past everything but chosen nodes.

    Args:
        frozen: The frozen model of one text. Hidden units and MLPs need it dressed.
        nodes: Each at most once; no unit of an MLP that is a node at the same position.
        position: Where the logit is read, from 0; a traced one is not checked.
        direction: A column of the folded unembedding, ``frozen.read_out.W_U[:, token]``, or a
            difference of two.
        questions: Further numbers to split.

    Raises:
        ValueError: If a node or the position is out of range, nodes overlap, or one is a unit or an
            MLP of a model that has no maps of them.

    Source: ours; docs/methods/mlps.md.
    """
    n_ctx = frozen.A.shape[2]
    check_index("position", position, n_ctx)
    _check(frozen, nodes)
    kinds = [("head", "unit", "mlp").index(node.kind) for node in nodes]
    rows = np.asarray([node[1:] for node in nodes], int).reshape(len(nodes), 3).T
    chosen = _Chosen(jnp.asarray(kinds, int), *(jnp.asarray(row) for row in rows))
    if questions is None:
        none = jnp.zeros((0, n_ctx, frozen.tokens.shape[1]), frozen.tokens.dtype)
        questions = Questions(jnp.zeros(0, int), none[:, 0, 0], none)
    return _graph(frozen, chosen, position, direction, questions)


@compiled()
def _graph(
    frozen: FrozenModel,
    chosen: _Chosen,
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    questions: Questions,
) -> PathGraph:
    n_layers, _, n_ctx, _ = frozen.A.shape
    n_nodes, d_model, dtype = chosen.kind.shape[0], direction.shape[0], frozen.tokens.dtype
    here, place, head = jnp.arange(n_nodes), chosen.position, chosen.head()
    written, own_bias, units = _written(frozen, chosen)
    blocked = _without(frozen, chosen)
    n_flows = n_nodes + 1  # rows that are parts of the logit; questions follow
    scale = frozen.read_out.scale
    w = direction if scale is None else direction / scale[position]
    ends = jnp.zeros((n_flows + questions.layer.shape[0], n_ctx, d_model), dtype)
    ends = ends.at[n_nodes, position].set(w)
    nothing = jnp.zeros((n_ctx, d_model), dtype)

    def step(after: Array, layer: Array) -> tuple[Array, tuple[Array, Array]]:
        acts = (chosen.layer == layer).astype(dtype)
        asks = (questions.layer == layer).astype(dtype)
        behind = after  # at what the MLP writes
        if frozen.norms is not None:
            norms = frozen.norms
            _, back = jax.vjp(lambda x: norms.apply(layer, 1, x), after)
            (behind,) = back(after)
        read = jnp.zeros_like(after)  # at what the MLP reads
        if frozen.maps is not None:
            maps, ahead = _at(frozen.maps, place), behind[:n_flows].sum(axis=0)[place]
            open_units = (ahead @ frozen.maps.W_out[layer].T) * units * acts[:, None]
            _, back = jax.vjp(lambda x: mlp_units(maps, layer, x), ahead)
            read = read.at[here, place].add(back(open_units)[0])
        into_mlp = (asks * questions.behind_heads)[:, None, None]
        read = read.at[n_flows:].add(into_mlp * questions.directions)

        def passed(x: Array, by_heads: Array) -> tuple[Array, Array]:
            by_heads = head_writes(blocked, layer, x, summed=True) + by_heads
            through = after_layer(blocked, layer, x, by_heads, constants=False)
            return through[0] + through[1], _mlp_reads(blocked, layer, x, by_heads, False)

        _, back = jax.vjp(passed, after, after)
        before, by_heads = back((after, read))
        into_heads = (asks * (1 - questions.behind_heads))[:, None, None]
        before = before.at[n_flows:].add(into_heads * questions.directions)
        # A head reads the direction of all that is behind it.
        ahead = by_heads[:n_flows].sum(axis=0)[place] * (acts * chosen.heads())[:, None]
        reads = jnp.einsum("nd,nkd->nk", ahead, frozen.W_O[layer, head])
        reads = jnp.einsum("nk,ndk->nd", reads, frozen.W_V[layer, head])
        before = before.at[here].add(frozen.A[layer, head, place][:, :, None] * reads[:, None, :])
        met = jnp.where(chosen.heads()[None, :, None], by_heads[:, place], behind[:, place])
        edges = jnp.einsum("rnd,nd->rn", met, written) * acts[None, :]
        # Biases of what is no node, and those of the nodes.
        constants = head_constants(blocked, layer).sum(axis=0)
        through = after_layer(blocked, layer, nothing, nothing)
        biases = jnp.einsum("rtd,td->r", after, through[0] + through[1])
        biases = biases + jnp.einsum("rtd,td->r", by_heads, constants)
        entering = _mlp_reads(blocked, layer, nothing, nothing, True)
        biases = biases + jnp.einsum("rtd,td->r", read, entering)
        biases = biases.at[here].add((ahead * own_bias).sum(axis=1))
        return before, (edges, biases)

    start, (edges, biases) = jax.lax.scan(step, ends, jnp.arange(n_layers), reverse=True)
    tokens = jnp.einsum("rsd,sd->rs", start, frozen.embedding)
    rows = jnp.concatenate([edges.sum(axis=0), tokens, biases.sum(axis=0)[:, None]], axis=1)
    return PathGraph(rows[:n_flows], rows[n_flows:], written)


def _written(frozen: FrozenModel, chosen: _Chosen) -> tuple[Array, Array, Array]:
    """Writes of the nodes, the part of these from biases of heads, and the hidden units."""
    n_layers = frozen.A.shape[0]
    dtype, place, head = frozen.tokens.dtype, chosen.position, chosen.head()
    maps = None if frozen.maps is None else _at(frozen.maps, place)
    units = chosen.units(1 if maps is None else maps.W_out.shape[1]).astype(dtype)
    is_head = chosen.heads()[:, None].astype(dtype)

    def step(x: Array, layer: Array) -> tuple[Array, tuple[Array, Array]]:
        acts = (chosen.layer == layer)[:, None].astype(dtype)
        W_O = frozen.W_O[layer, head]
        mixed = jnp.einsum("ns,sd->nd", frozen.A[layer, head, place], x)
        mixed = jnp.einsum("nd,ndk->nk", mixed, frozen.W_V[layer, head])
        own = jnp.zeros_like(mixed)
        if frozen.b_V is not None:
            own = frozen.b_V[layer, head, place]
        bias = jnp.einsum("nk,nkd->nd", own, W_O) * is_head * acts
        written = jnp.einsum("nk,nkd->nd", mixed, W_O) * is_head * acts + bias
        by_heads = head_writes(frozen, layer, x, summed=True)
        by_heads = by_heads + head_constants(frozen, layer).sum(axis=0)
        if maps is not None:
            read = _mlp_reads(frozen, layer, x, by_heads, True)[place]
            opened = mlp_units(maps, layer, read) * units
            written = written + (opened @ maps.W_out[layer]) * acts
        stream, through = after_layer(frozen, layer, x, by_heads)
        return stream + through, (written, bias)

    _, (written, bias) = jax.lax.scan(step, frozen.embedding, jnp.arange(n_layers))
    return written.sum(axis=0), bias.sum(axis=0), units


def _mlp_reads(
    frozen: FrozenModel, layer: Array, x: Array, by_heads: Array, constants: bool
) -> Array:
    """Input of a layer's MLP: the stream, and in the sequential form the writes of heads."""
    if frozen.maps is None:
        return jnp.zeros_like(x)
    if constants and frozen.b_O is not None:
        by_heads = by_heads + frozen.b_O[layer][None, :]
    if frozen.norms is None:
        return x + frozen.maps.after_heads * by_heads
    read = frozen.norms.apply(layer, 0, x + by_heads)
    return read + frozen.norms.offset[layer, 0][None, :] if constants else read


def _without(frozen: FrozenModel, chosen: _Chosen) -> FrozenModel:
    """The model in which no path passes a chosen node."""
    layer, place, head = chosen.layer, chosen.position, chosen.head()
    kept = 1 - chosen.heads().astype(frozen.A.dtype)
    b_V, maps = frozen.b_V, frozen.maps
    if b_V is not None:
        b_V = b_V.at[layer, head, place].multiply(kept[:, None])
    if maps is not None:
        units = 1 - chosen.units(maps.W_out.shape[1]).astype(kept.dtype)
        shape = (maps.factors.shape[0], *maps.factors.shape[2:])
        open_units = jnp.ones(shape, kept.dtype).at[layer, place].multiply(units)
        if maps.hidden_factors is None:
            maps = maps._replace(factors=maps.factors * open_units[:, None])
        else:
            last = maps.hidden_factors.at[:, -1].multiply(open_units)
            maps = maps._replace(hidden_factors=last)
    A = frozen.A.at[layer, head, place].multiply(kept[:, None])
    return frozen._replace(A=A, b_V=b_V, maps=maps)


def _at(maps: FrozenMLPs, place: Int[Array, " n_nodes"]) -> FrozenMLPs:
    """The MLPs at the position of each node, which takes the place of a position."""
    extra = maps.hidden_factors
    return maps._replace(
        factors=maps.factors[:, :, place],
        constant=maps.constant[:, place],
        hidden_factors=None if extra is None else extra[:, :, place],
    )


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
