"""All paths to one logit as a graph of a few chosen nodes: each edge carries a part of it.

A path passes some of the chosen heads, hidden units and MLPs, in order, and counts to the edges
between one and the next, whatever else lies between them. So the values of the edges are sums of
paths: what flows into a node flows out of it, and the edges into the logit add up to it, whichever
nodes are chosen. One backward pass finds what each node's write is worth, and one forward pass with
a stream for each source, a node, a token or the biases, what of it reaches which node. Where
attention is causal a source reaches its own position and later ones only.

Why a node is open is a second question, which the same passes answer: what the input of a gate, or
a difference of scores, comes from (`Questions`).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import (
    FrozenMLPs,
    FrozenModel,
    head_constants,
    mlp_units,
)
from circuitax.circuits.paths.groups import carried_back
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.indices import check_index
from circuitax.kernel.shown import shapes

HEAD, UNIT, MLP, NOTHING = range(4)
_SLOTS = 32  # nodes of a layer; of more, a power of two times as many
_OCTAVE = 4  # numbers of rows that are told apart while they double


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


class _Chosen(NamedTuple):
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


class _Rows(NamedTuple):
    """Positions at which the streams of sources are carried: each from its first one on.

    Sources are the nodes, the tokens and all biases; then one that has nothing.

    Attributes:
        source: Of each row.
        place: Its position.
        of: The row of each source and position: the last, which is always of zeros, where it has
            none.
    """

    source: Int[Array, " n_rows"]
    place: Int[Array, " n_rows"]
    of: Int[Array, "n_sources+1 n_ctx"]


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
    for the tokens and one for a node at the last position. Rows and nodes of a layer are rounded
    up, so that most choices of as many nodes share a program.

    Args:
        frozen: The frozen model of one text. Hidden units and MLPs need it dressed.
        nodes: Each at most once; no unit of an MLP that is a node at the same position.
        position: Where the logit is read, from 0; a traced one is not checked.
        direction: A column of the folded unembedding, ``frozen.read_out.W_U[:, token]``, or a
            difference of two.
        questions: Further numbers to split.
        causal: Whether no pattern reads a later position. None looks at the patterns; where these
            are traced it carries every source at every position.

    Raises:
        ValueError: If a node or the position is out of range, nodes overlap, one is a unit or an
            MLP of a model that has no maps of them, or a pattern reads a later position where
            ``causal`` is True; those that are traced are not checked.

    Source: ours; docs/methods/mlps.md.
    """
    n_ctx = frozen.A.shape[2]
    check_index("position", position, n_ctx)
    _check(frozen, nodes)
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
    chosen, rows = _slots(nodes, frozen.A.shape[0], n_ctx), _rows([*first, 0], n_ctx)
    return _graph(frozen, chosen, rows, position, direction, questions)


def _slots(nodes: Sequence[Node], n_layers: int, n_ctx: int) -> _Chosen:
    """Slots for the nodes: as many in a layer as there are nodes, up to `_SLOTS`."""
    layers = np.array([node.layer for node in nodes], int)
    most = int(np.bincount(layers, minlength=1).max())
    n_slots = min(len(nodes), _SLOTS * 2 ** math.ceil(math.log2(max(most, _SLOTS) / _SLOTS)))
    kind, which, position = np.full((3, n_layers, n_slots), [[[NOTHING]], [[0]], [[0]]])
    number = np.full((n_layers, n_slots), len(nodes) + n_ctx + 1)
    slot = np.zeros(len(nodes), int)
    for i, node in enumerate(nodes):
        at = node.layer, int((layers[:i] == node.layer).sum())
        kind[at], which[at] = ("head", "unit", "mlp").index(node.kind), node.which
        position[at], number[at] = node.position, i
        slot[i] = at[0] * n_slots + at[1]
    return _Chosen(*map(jnp.asarray, (kind, which, position, number, slot)))


def _rows(first: Sequence[int], n_ctx: int) -> _Rows:
    """Rows of sources from their first positions on, and at least one empty row behind them."""
    source, place = np.nonzero(np.arange(n_ctx) >= np.array(first)[:, None])
    n = len(source)
    n_rows = math.ceil(2 ** (math.ceil(_OCTAVE * math.log2(n + 1)) / _OCTAVE))
    of = np.full((len(first) + 1, n_ctx), n_rows - 1)
    of[source, place] = np.arange(n)
    source, place = (
        np.append(source, [len(first)] * (n_rows - n)),
        np.append(place, [0] * (n_rows - n)),
    )
    return _Rows(jnp.asarray(source), jnp.asarray(place), jnp.asarray(of))


@compiled()
def _graph(
    frozen: FrozenModel,
    chosen: _Chosen,
    rows: _Rows,
    position: int | Int[Array, ""],
    direction: Float[Array, " d_model"],
    questions: Questions,
) -> PathGraph:
    n_layers, n_heads, n_ctx, _ = frozen.A.shape
    n_nodes, d_model, dtype = chosen.slot.shape[0], direction.shape[0], frozen.tokens.dtype
    blocked, ends = _without(frozen, chosen), carried_back(frozen, position, direction)
    met_by_mlps = ends.entering[1:]
    if frozen.norms is not None and frozen.maps is not None:
        met_by_mlps = frozen.norms.carried_back(1, met_by_mlps)
    place, tokens = rows.place, jnp.arange(n_ctx)
    is_bias = (rows.source == n_nodes + n_ctx)[:, None].astype(dtype)
    are_heads = chosen.heads(n_heads).astype(dtype)
    norms = None if frozen.norms is None else frozen.norms.at(place)
    streams = jnp.zeros((place.shape[0], d_model), dtype)
    streams = streams.at[rows.of[n_nodes + tokens, tokens]].set(frozen.embedding)

    def step(x: Array, layer: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        W_V, W_O, at = frozen.W_V[layer], frozen.W_O[layer], chosen.position[layer]
        begins = rows.of[chosen.number[layer], at]
        # What heads write of each source; those that are nodes read nothing.
        values = (x @ jnp.swapaxes(W_V, 0, 1).reshape(d_model, -1))[rows.of]
        values = values.reshape(*rows.of.shape, n_heads, -1)
        mixed = jnp.einsum("hts,ushk->uthk", blocked.A[layer], values)
        mixed = mixed.reshape(*rows.of.shape, -1)[rows.source, place]
        by_heads = mixed @ W_O.reshape(-1, d_model)
        constants = head_constants(blocked, layer).sum(axis=0)
        if frozen.b_O is not None:
            constants = constants + frozen.b_O[layer][None, :]
        by_heads = by_heads + is_bias * constants[place]
        # Those that are nodes: what each writes of all sources together, and what the direction
        # behind it is worth where it reads.
        own = are_heads[layer]
        total = jnp.einsum("hts,shk->thk", frozen.A[layer], values.sum(axis=0))[at]
        bias = jnp.zeros((at.shape[0], d_model), dtype)
        if frozen.b_V is not None:
            b_V = jnp.moveaxis(frozen.b_V[layer], 0, 1)[at]
            bias = jnp.einsum("nh,nhk,hkd->nd", own, b_V, W_O)
        written = jnp.einsum("nh,nhk,hkd->nd", own, total, W_O) + bias
        by_heads = by_heads.at[begins].add(written)
        behind = ends.written[layer][at]
        worth = jnp.einsum("nd,nh,hkd,hek->ne", behind, own, W_O, W_V)
        pattern = jnp.einsum("nh,hns->sn", own, frozen.A[layer][:, at])
        met = (x @ worth.T) * pattern[place]
        own_bias = (bias * behind).sum(axis=1)
        # The same of the MLP, which in the parallel form does not read what heads wrote.
        after, read = x + by_heads, jnp.zeros_like(x)
        if norms is not None:
            after = norms.apply(layer, 0, after) + is_bias * norms.offset[layer, 0][None, :]
        if frozen.mlps is not None:
            after = after + is_bias * frozen.mlps[layer][place]
        if frozen.maps is not None and blocked.maps is not None:
            read = after if norms is not None else x + frozen.maps.after_heads * by_heads
            units = mlp_units(_at(blocked.maps, layer, place), 0, read)
            after = after + units @ frozen.maps.W_out[layer]
            after = after + is_bias * frozen.maps.constant[layer][place]
            behind = met_by_mlps[layer][at]
            by_units, by_row = _unit_nodes(frozen.maps, chosen, layer, behind, read, rows)
            after = after.at[begins].add(by_units)
            written, met = written + by_units, met + by_row
        if norms is not None and frozen.maps is not None:
            after = norms.apply(layer, 1, after) + is_bias * norms.offset[layer, 1][None, :]
        edges = met[rows.of[:-1]].sum(axis=1).T.at[:, -1].add(own_bias)
        return after, (edges, written, _answers(questions, layer, rows, x, read))

    last, (edges, written, asked) = jax.lax.scan(step, streams, jnp.arange(n_layers))
    into_logit = last[rows.of[:-1, position]] @ ends.entering[-1][position]
    edges, written = (each.reshape(-1, each.shape[-1])[chosen.slot] for each in (edges, written))
    return PathGraph(jnp.concatenate([edges, into_logit[None]]), asked.sum(axis=0), written)


def _unit_nodes(
    maps: FrozenMLPs,
    chosen: _Chosen,
    layer: Int[Array, ""],
    behind: Float[Array, "n_slots d_model"],
    read: Float[Array, "n_rows d_model"],
    rows: _Rows,
) -> tuple[Float[Array, "n_slots d_model"], Float[Array, "n_rows n_slots"]]:
    """What the units that are nodes write of all sources together, and what they meet of each row.

    Args:
        maps: The MLPs, no unit closed.
        chosen: The nodes.
        layer: Which layer.
        behind: The logit's direction where the MLP writes, at each node.
        read: What the MLP reads.
        rows: Whose.
    """
    W_out, at = maps.W_out[layer], chosen.position[layer]
    there = chosen._replace(kind=chosen.kind[layer], which=chosen.which[layer])
    own = there.units(W_out.shape[0]).astype(read.dtype)
    here = _at(maps, layer, at)
    units, back = jax.vjp(lambda y: mlp_units(here, 0, y), read[rows.of].sum(axis=0)[at])
    (worth,) = back(behind @ W_out.T * own)
    return (units * own) @ W_out, (read @ worth.T) * (rows.place[:, None] == at[None, :])


def _answers(questions: Questions, layer: Array, rows: _Rows, heads: Array, mlp: Array) -> Array:
    """What each source gives to the questions of one layer, from what heads and MLP read."""
    asks, behind = questions.layer == layer, questions.behind_heads
    weights = jnp.stack([asks * (1 - behind), asks * behind])
    reads = jnp.stack([heads[rows.of[:-1]], mlp[rows.of[:-1]]])
    return jnp.einsum("bq,qtd,bstd->qs", weights, questions.directions, reads)


def _without(frozen: FrozenModel, chosen: _Chosen) -> FrozenModel:
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


def _at(maps: FrozenMLPs, layer: Array, place: Int[Array, " n"]) -> FrozenMLPs:
    """The MLP of one layer at some positions, as the only layer."""
    hidden = maps.hidden_factors
    return maps._replace(
        W_in=maps.W_in[layer][None],
        factors=maps.factors[layer][None][:, :, place],
        W_out=maps.W_out[layer][None],
        constant=maps.constant[layer][None][:, place],
        W_hidden=None if maps.W_hidden is None else maps.W_hidden[layer][None],
        hidden_factors=None if hidden is None else hidden[layer][None][:, :, place],
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
