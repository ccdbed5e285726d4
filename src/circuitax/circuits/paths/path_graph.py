"""All paths to one logit as a graph of a few chosen nodes: each edge carries a part of it.

Streams of many sources are rows: each source at the positions that it reaches, in blocks.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from circuitax.circuits.paths.frozen import (
    FrozenMLPs,
    FrozenModel,
    head_constants,
    mlp_units,
)
from circuitax.circuits.paths.groups import carried_back
from circuitax.display.tables import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.shown import shapes

_ROWS = 128  # of a block at least, which holds all positions once or several times
_OCTAVE = 4  # numbers of blocks that are told apart while they double


class SourceRows(NamedTuple):
    """The rows of all sources, and of one more that has nothing.

    Attributes:
        source: Of each row; the one that has nothing where a block is not full.
        place: Its position.
        begins: The first layer in which a source of each block is read; none where it has none.
        of: The row of each source and position: one that is always of zeros, where it has none.
    """

    source: Int[Array, " n_rows"]
    place: Int[Array, " n_rows"]
    begins: Int[Array, " n_blocks"]
    of: Int[Array, "n_sources+1 n_ctx"]

    def summed(self, met: Float[Array, "n n_rows"]) -> Float[Array, "n n_sources"]:
        """Sums over the rows of each source."""
        return met @ jax.nn.one_hot(self.source, self.of.shape[0] - 1, dtype=met.dtype)


def source_rows(first: Sequence[int], layers: Sequence[int], n_ctx: int) -> SourceRows:
    """Rows of sources from their first positions on."""
    n_rows, never = n_ctx * math.ceil(_ROWS / n_ctx), np.iinfo(np.int32).max
    sizes, begins = [*(n_ctx - at for at in first), 1], [*layers, never]
    blocks: list[list[int]] = []
    taken: list[int] = []
    for source in sorted(range(len(sizes)), key=lambda i: (begins[i], -sizes[i])):
        size = sizes[source]
        block = next((b for b, rows in enumerate(taken) if rows + size <= n_rows), len(blocks))
        if block == len(blocks):
            blocks.append([])
            taken.append(0)
        blocks[block].append(source)
        taken[block] += size
    n_blocks = math.ceil(2 ** (math.ceil(_OCTAVE * math.log2(len(blocks))) / _OCTAVE))
    sources, places = np.full((2, n_blocks * n_rows), [[len(first)], [0]])
    of = np.full((len(first) + 1, n_ctx), -1)
    for block, those in enumerate(blocks):
        row = block * n_rows
        for each in those:
            own = np.arange(n_ctx - sizes[each], n_ctx)
            of[each, own] = row + np.arange(sizes[each])
            sources[of[each, own]], places[of[each, own]] = each, own
            row += sizes[each]
    of[of < 0] = of[-1, -1]
    first_layers = [min(begins[each] for each in those) for those in blocks]
    first_layers += [never] * (n_blocks - len(blocks))
    return SourceRows(*map(jnp.asarray, (sources, places, first_layers, of)))


def of_blocks(
    begun: Bool[Array, " n_blocks"], product: Callable[..., PyTree[Array]], *rows: Array
) -> PyTree[Array]:
    """What is computed of the blocks of rows that have begun; of the others it is 0."""
    n_blocks = begun.shape[0]

    def none(*block: Array) -> PyTree[Array]:
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(product, *block))

    @jax.checkpoint
    def one(_: None, each: tuple[Array, list[Array]]) -> tuple[None, PyTree[Array]]:
        return None, jax.lax.cond(each[0], product, none, *each[1])

    blocks = [x.reshape(n_blocks, x.shape[0] // max(n_blocks, 1), *x.shape[1:]) for x in rows]
    _, done = jax.lax.scan(one, None, (begun, blocks))
    return jax.tree.map(lambda y: y.reshape(y.shape[0] * y.shape[1], *y.shape[2:]), done)


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


class Questions(NamedTuple):
    """Numbers that are linear in the stream at one layer, to be split by source and node.

    Attributes:
        layer: Where each is read.
        behind_heads: 1 where it is read from what the MLP of the layer reads, which is nothing in a
            model without maps of MLPs; 0 where from what heads read.
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


def path_graph(
    frozen: FrozenModel,
    nodes: Sequence[Node],
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    questions: Questions | None = None,
    *,
    causal: bool | None = None,
) -> PathGraph:
    """The graph of all paths to one logit over the nodes that are chosen.

    An edge u → v is the sum of all paths whose next chosen node behind u is v. With y_u what u
    writes, carried on past everything but chosen nodes to where v reads, ``edge(u, v) = (W_v y_u) ·
    g_v``, where W_v is the map of v and g_v the logit's direction carried back to where it writes.

    Cost: a linear pass with a row for each source and position that it reaches, some ``n_ctx² / 2``
    for the tokens and one for a node at the last position, from its layer on. Rows and nodes of a
    layer come in blocks: of rows those are computed that have begun, of nodes those that have any.
    Their number is rounded up, so that most choices of as many nodes share a program.

    Source: ours; docs/methods/mlps.md.
    """
    n_ctx = frozen.A.shape[2]
    chosen = chosen_nodes(frozen, nodes)
    if questions is None:
        none = jnp.zeros((0, n_ctx, frozen.tokens.shape[1]), frozen.tokens.dtype)
        questions = Questions(jnp.zeros(0, int), none[:, 0, 0], none)
    ahead = True
    if not isinstance(frozen.A, jax.core.Tracer):
        ahead = bool(np.triu(frozen.A, 1).any())
        if causal and ahead:
            raise ValueError("causal=True, and a pattern of frozen.A reads a later position")
    elif causal:
        ahead = False
    first = [0 if ahead else place for place in [*(node.position for node in nodes), *range(n_ctx)]]
    # What an MLP writes is read from the next layer on.
    begins = [node.layer + (node.kind != "head") for node in nodes] + [0] * (n_ctx + 1)
    rows = source_rows([*first, 0], begins, n_ctx)
    return _graph(frozen, chosen, rows, position, direction, questions)


@compiled()
def _graph(
    frozen: FrozenModel,
    chosen: ChosenNodes,
    rows: SourceRows,
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    questions: Questions,
) -> PathGraph:
    n_layers, n_heads, n_ctx, _ = frozen.A.shape
    n_nodes, d_model, dtype = chosen.slot.shape[0], direction.shape[0], frozen.tokens.dtype
    blocked, ends = without_nodes(frozen, chosen), carried_back(frozen, position, direction)
    met_by_mlps = ends.entering[1:]
    if frozen.norms is not None and frozen.maps is not None:
        met_by_mlps = frozen.norms.carried_back(1, met_by_mlps)
    place, source, tokens = rows.place, rows.source, jnp.arange(n_ctx)
    is_bias = (source == n_nodes + n_ctx)[:, None].astype(dtype)
    are_heads = chosen.heads(n_heads).astype(dtype)
    norms = None if frozen.norms is None else frozen.norms.at(place)
    streams = jnp.zeros((place.shape[0], d_model), dtype)
    streams = streams.at[rows.of[n_nodes + tokens, tokens]].set(frozen.embedding)

    def step(x: Array, layer: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        begun = rows.begins <= layer
        at, kind = chosen.position[layer], chosen.kind[layer].reshape(-1, SLOTS_A_BLOCK)
        begins = rows.of[chosen.number[layer], at]
        # What heads write of each source; those that are nodes read nothing.
        by_heads = of_blocks(
            begun,
            partial(_by_heads, blocked.A[layer], frozen.W_V[layer], frozen.W_O[layer]),
            source,
            place,
            x,
        )
        constants = head_constants(blocked, layer).sum(axis=0)
        if frozen.b_O is not None:
            constants = constants + frozen.b_O[layer][None, :]
        by_heads = by_heads + is_bias * constants[place]
        # Those that are nodes.
        written, edges = of_blocks(
            (kind == HEAD).any(axis=1),
            partial(_head_nodes, frozen, layer, rows, x),
            are_heads[layer],
            at,
            ends.written[layer][at],
        )
        by_heads = by_heads.at[begins].add(written)
        # The same of the MLP, which in the parallel form does not read what heads wrote.
        after, read = x + by_heads, jnp.zeros_like(x)
        if norms is not None:
            after = norms.apply(layer, 0, after) + is_bias * norms.offset[layer, 0][None, :]
        if frozen.mlps is not None:
            after = after + is_bias * frozen.mlps[layer][place]
        if frozen.maps is not None and blocked.maps is not None:
            read = after if norms is not None else x + frozen.maps.after_heads * by_heads
            W_out = frozen.maps.W_out[layer]
            rest = partial(_units, _sides(blocked.maps, layer))
            after = after + of_blocks(begun, lambda at, x: rest(at, x) @ W_out, place, read)
            after = after + is_bias * frozen.maps.constant[layer][place]
            slots = chosen._replace(kind=chosen.kind[layer], which=chosen.which[layer])
            written_by_units, edges_to_units = of_blocks(
                ((kind != HEAD) & (kind != NOTHING)).any(axis=1),
                partial(_unit_nodes, frozen.maps, layer, rows, read),
                slots.units(W_out.shape[0]).astype(dtype),
                at,
                met_by_mlps[layer][at],
            )
            after = after.at[begins].add(written_by_units)
            written, edges = written + written_by_units, edges + edges_to_units
        if norms is not None and frozen.maps is not None:
            after = norms.apply(layer, 1, after) + is_bias * norms.offset[layer, 1][None, :]
        return after, (edges, written, _answers(questions, layer, rows, x, read))

    last, (edges, written, asked) = jax.lax.scan(step, streams, jnp.arange(n_layers))
    into_logit = last[rows.of[:-1, position]] @ ends.entering[-1][position]
    edges, written = (each.reshape(-1, each.shape[-1])[chosen.slot] for each in (edges, written))
    return PathGraph(jnp.concatenate([edges, into_logit[None]]), asked.sum(axis=0), written)


def _by_heads(
    A: Float[Array, "n_heads n_ctx n_ctx"],
    W_V: Float[Array, "n_heads d_model d_value"],
    W_O: Float[Array, "n_heads d_value d_model"],
    source: Int[Array, " n"],
    place: Int[Array, " n"],
    x: Float[Array, "n d_model"],
) -> Float[Array, "n d_model"]:
    """What the heads write from rows that hold whole sources, without biases."""
    values = jnp.einsum("rd,hdk->hrk", x, W_V)
    looks = A[:, place][:, :, place] * (source[:, None] == source[None, :])[None]
    return jnp.einsum("hrk,hkd->rd", jnp.einsum("hrs,hsk->hrk", looks, values), W_O)


def _head_nodes(
    frozen: FrozenModel,
    layer: Int[Array, ""],
    rows: SourceRows,
    x: Float[Array, "n_rows d_model"],
    own: Float[Array, "n_slots n_heads"],
    at: Int[Array, " n_slots"],
    behind: Float[Array, "n_slots d_model"],
) -> tuple[Float[Array, "n_slots d_model"], Float[Array, "n_slots n_sources"]]:
    """What heads that are nodes write of all sources together, and the edges that end there."""
    W_V, W_O, A = frozen.W_V[layer], frozen.W_O[layer], frozen.A[layer][:, at]
    all_sources = jax.nn.one_hot(rows.place, A.shape[-1], axis=0, dtype=x.dtype) @ x
    values = jnp.einsum("sd,hdk->hsk", all_sources, W_V)
    written = jnp.einsum("nh,nhk,hkd->nd", own, jnp.einsum("hns,hsk->nhk", A, values), W_O)
    worth = jnp.einsum("nd,nh,hkd,hek->ne", behind, own, W_O, W_V)
    pattern = jnp.einsum("nh,hns->ns", own, A)
    edges = rows.summed((worth @ x.T) * pattern[:, rows.place])
    if frozen.b_V is None:
        return written, edges
    b_V = jnp.moveaxis(frozen.b_V[layer], 0, 1)[at]
    bias = jnp.einsum("nh,nhk,hkd->nd", own, b_V, W_O)
    return written + bias, edges.at[:, -1].add((bias * behind).sum(axis=1))


def _unit_nodes(
    maps: FrozenMLPs,
    layer: Int[Array, ""],
    rows: SourceRows,
    read: Float[Array, "n_rows d_model"],
    own: Float[Array, "n_slots d_mlp"],
    at: Int[Array, " n_slots"],
    behind: Float[Array, "n_slots d_model"],
) -> tuple[Float[Array, "n_slots d_model"], Float[Array, "n_slots n_sources"]]:
    """What units that are nodes write of all sources together, and the edges that end there."""
    W_out = maps.W_out[layer]
    is_there = at[:, None] == rows.place[None, :]
    all_sources = is_there.astype(read.dtype) @ read
    units, back = jax.vjp(partial(_units, _sides(maps, layer), at), all_sources)
    (worth,) = back(behind @ W_out.T * own)
    met = (worth @ read.T) * is_there
    return (units * own) @ W_out, rows.summed(met)


def _answers(
    questions: Questions, layer: Array, rows: SourceRows, heads: Array, mlp: Array
) -> Array:
    """What each source gives to the questions of one layer, from what heads and MLP read."""
    asks, behind = questions.layer == layer, questions.behind_heads
    weights = jnp.stack([asks * (1 - behind), asks * behind])
    reads = jnp.stack([heads[rows.of[:-1]], mlp[rows.of[:-1]]])
    return jnp.einsum("bq,qtd,bstd->qs", weights, questions.directions, reads)


def _sides(maps: FrozenMLPs, layer: Array) -> list[FrozenMLPs]:
    """The MLP of one layer, each side of it as the only layer: its units are the sum over sides."""
    one = maps._replace(
        W_out=maps.W_out[layer][None],
        constant=maps.constant[layer][None],
        W_hidden=None if maps.W_hidden is None else maps.W_hidden[layer][None],
        hidden_factors=None if maps.hidden_factors is None else maps.hidden_factors[layer][None],
    )
    return [
        one._replace(W_in=W[None, None], factors=g[None, None])
        for W, g in zip(maps.W_in[layer], maps.factors[layer], strict=True)
    ]


def _units(
    sides: Sequence[FrozenMLPs], at: Int[Array, " n"], read: Float[Array, "n d_model"]
) -> Float[Array, "n d_mlp"]:
    """Values of the hidden units at some positions, which may be named several times."""
    units = jnp.zeros((), read.dtype)
    for side in sides:
        hidden = None if side.hidden_factors is None else side.hidden_factors[:, :, at]
        here = side._replace(factors=side.factors[:, :, at], hidden_factors=hidden)
        units = units + mlp_units(here, 0, read)
    return units
