"""The difference of two runs between places: moves of heads, and edges between chosen nodes.

Derivations: docs/methods/contrast.md.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.contrast import Pass, multipliers_of, one_pass, question
from circuitax.circuits.paths.path_graph import Node
from circuitax.display.tables import documented
from circuitax.kernel.checks import check_index
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import final_stream
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kernel.secants import PAIR, secant
from circuitax.kernel.shown import shapes

KINDS = ("value", "query", "key", "gate", "unit", "norm", "logit")
_SOURCES = 8  # carried on at a time


@documented
class Moves(NamedTuple):
    """What each head brings from each position to each, by how it is read.

    Attributes:
        value: By what is carried over; summed over positions it is that of `Routes`.
        query: By where the head looks from, which is read at the destination.
        key: By what is looked for.
        mlps: What the MLP at each position brings in; None without MLPs.
        patterns: Attention in both texts.
        wrote: What heads and MLPs wrote in the first text less in the second.
    """

    value: Float[Array, "n_layers n_heads dest src"]
    query: Float[Array, "n_layers n_heads dest src"]
    key: Float[Array, "n_layers n_heads dest src"]
    mlps: Float[Array, "n_layers n_ctx"] | None
    patterns: Float[Array, "2 n_layers n_heads dest src"]
    wrote: tuple[Array, Array | None]

    def __repr__(self) -> str:
        return shapes(self)


def moves(
    run: Run,
    other: Run,
    *,
    token: SupportsIndex | Int[Array, ""],
    minus: SupportsIndex | Int[Array, ""] | None = None,
    position: SupportsIndex = -1,
) -> Moves:
    """`contrast`'s routes by destination and source: ``⟨Δread_s, m_ts⟩``.

    m_ts is the part of the multiplier of what a head reads at s that comes by what it writes at t.
    The arguments and errors are those of `contrast`. A pass of attention alone for each position.
    """
    return _moves(*question(run, other, token, minus, position))


class ContrastEdges(NamedTuple):
    """The difference over chosen nodes, by kind of edge.

    Attributes:
        edges: By kind, in the order of `KINDS`; rows are where an edge ends: the nodes as given,
            then the logit; columns where it begins: the nodes, then the tokens. All kinds of a
            node's row, and its column, have one sum; the row of the logit has delta.
    """

    edges: Float[Array, "n_kinds n_ends n_sources"]

    def __repr__(self) -> str:
        return shapes(self)


def contrast_edges(
    run: Run,
    other: Run,
    nodes: Sequence[Node],
    *,
    token: SupportsIndex | Int[Array, ""],
    minus: SupportsIndex | Int[Array, ""] | None = None,
    position: SupportsIndex = -1,
) -> ContrastEdges:
    """Edges between heads and MLPs at positions: ``edge(u, v) = ⟨J̄ Δy_u, m_v⟩``.

    J̄ carries what u writes past everything but chosen nodes to where v reads, and m_v is the part
    of the multiplier there that comes by v, and by one kind of reading; heads with a norm behind
    them also read its divisor, which all heads of a position share. Arguments and errors are those
    of `contrast`; a norm of the queries and keys of all heads together is refused.
    """
    model, texts, asked = question(run, other, token, minus, position)
    if model.spec.joint_qk_norm:
        raise ValueError("run has joint_qk_norm=True: what one head reads depends on all heads")
    for i, node in enumerate(nodes):
        if node in nodes[:i]:
            raise ValueError(f"nodes has {node} twice, must have it once")
        if node.kind not in ("head", "mlp"):
            raise ValueError(f"nodes has one of kind {node.kind!r}, must be of heads and MLPs")
        n_layers = 0 if node.kind == "mlp" and model.d_mlp is None else model.n_layers
        n_which = model.n_heads if node.kind == "head" else 1
        sizes = (n_layers, n_which, texts.shape[1])
        for name, index, size in zip(node._fields[1:], node[1:], sizes, strict=True):
            check_index(f"nodes' {name}", index, size)
    rows = [(n.kind == "mlp", n.layer, n.which, n.position) for n in nodes]
    chosen = jnp.asarray(rows, jnp.int32).reshape(-1, 4)
    return ContrastEdges(_edges(model, texts, asked, chosen))


@compiled()
def _moves(model: Model, texts: Int[Array, "2 n_ctx"], asked: Int[Array, "3"]) -> Moves:
    multipliers, each = multipliers_of(model, texts, asked)
    by_destination = _by_destination(model, texts, multipliers, each, NormScales())
    less = each.read[0] - each.read[1]

    def from_sources(dest: Array) -> Array:
        return jnp.einsum("klhsd,lsd->klhs", by_destination(dest), less)

    found = jax.lax.map(from_sources, jnp.arange(texts.shape[1]))
    wrote = each.trace.head_outputs, each.trace.mlp_outputs
    heads, mlps = jax.tree.map(lambda x: x[0] - x[1], wrote)
    by_mlps = None if mlps is None else jnp.einsum("ltd,ltd->lt", mlps, multipliers.mlp_add)
    value, query, key = jnp.moveaxis(found, 0, 3)
    return Moves(value, query, key, by_mlps, each.trace.patterns, (heads, mlps))


def _by_destination(
    model: Model, texts: Int[Array, "2 n_ctx"], multipliers: Interventions, each: Pass, scales: Any
) -> Callable[[Array], Float[Array, "3 n_layers n_heads n_ctx d_model"]]:
    """Of one destination, the multipliers of what heads read as values, queries and keys.

    Every layer enters with the stream that it had, so that no layer answers for another. ``scales``
    are divisors to hold.
    """
    blocks, n_ctx = model.blocks._replace(mlp=None, mlp_norm=None, mlp_post_norm=None), len(texts.T)
    bare = model.replace(
        blocks=blocks, spec=model.spec.replace(d_mlp=None, gated=False, mlp_depth=1)
    )
    held = jnp.zeros((model.n_layers + 1, 1), model.W_E.dtype)

    def written(reads: tuple[Array, Array, Array]) -> Float[Array, " n_ctx"]:
        def in_text(text: Array, streams: Array, scales: NormScales) -> Array:
            edit = Interventions(
                stream_keep=held,
                stream_add=streams,
                value_add=reads[0],
                query_add=reads[1],
                key_add=reads[2],
                scales=scales,
            )
            trace = final_stream(bare, text, edit, outputs=True, rule=secant)[1]
            return jnp.einsum("lhtd,lhtd->t", trace.head_outputs, multipliers.head_add)

        found = jax.vmap(in_text, axis_name=PAIR)(texts, each.trace.streams, scales)
        return found.mean(axis=0)

    none = jnp.zeros((model.n_layers, model.n_heads, n_ctx, model.d_model), model.W_E.dtype)
    back = jax.vjp(written, (none, none, none))[1]
    one = jnp.eye(n_ctx, dtype=none.dtype)
    return lambda dest: jnp.stack(back(one[dest])[0])


@compiled()
def _edges(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    asked: Int[Array, "3"],
    chosen: Int[Array, "n_nodes 4"],
) -> Float[Array, "n_kinds n_ends n_sources"]:
    multipliers, each = multipliers_of(model, texts, asked)
    is_mlp, layer, which, at = chosen.T
    n_nodes, n_ctx = len(chosen), texts.shape[1]
    is_head = 1 - is_mlp.astype(each.lead.dtype)
    into_heads = _into_heads(model, texts, multipliers, each, chosen) * is_head[None, :, None, None]
    into_mlps = _into_mlps(model, multipliers, each, layer, at) * (1 - is_head)[None, :, None]
    less = jax.tree.map(lambda x: x[0] - x[1], each.trace)
    by_divisor = jnp.zeros_like(is_head)
    if each.trace.scales.attention_post is not None:
        # Of x / y, what is written: -x̄ Δy / (y_A y_B).
        trace: Any = each.trace
        y, wrote = trace.scales.attention_post[:, layer, at], trace.head_outputs
        x = (y[..., None] * wrote[:, layer, which, at]).mean(axis=0)
        m = multipliers.head_add[layer, which, at]
        by_divisor = -is_head * (x * m).sum(axis=-1) / (y[0] * y[1])

    held = jnp.zeros(less.head_outputs.shape[:3], is_head.dtype).at[layer, which, at].max(is_head)
    held_mlps = jnp.zeros(less.streams[1:].shape[:2], is_head.dtype).at[layer, at].max(1 - is_head)

    def carried(weights: Float[Array, " n_sources"]) -> tuple[Array, Array, Any, Any]:
        """The lead and what is read, with so much more of the difference of each source."""
        head, mlp = weights[:n_nodes] * is_head, weights[:n_nodes] * (1 - is_head)
        more = head[:, None] * less.head_outputs[layer, which, at]
        heads = jnp.zeros_like(less.head_outputs).at[layer, which, at].add(more)
        streams = jnp.zeros_like(less.streams).at[0].set(weights[n_nodes:, None] * less.streams[0])

        def in_text(text: Array, trace: Any) -> Pass:
            wrote = held[..., None] * trace.head_outputs
            edit = Interventions(
                stream_add=streams,
                head_keep=1 - held,
                head_add=heads + wrote,
            )
            if trace.mlp_outputs is not None:
                mlps = held_mlps[..., None] * trace.mlp_outputs
                mlps = mlps.at[layer, at].add(mlp[:, None] * less.mlp_outputs[layer, at])
                edit = edit._replace(mlp_keep=1 - held_mlps, mlp_add=mlps)
            return one_pass(model, text, edit, asked)

        found = jax.vmap(in_text, axis_name=PAIR)(texts, each.trace)
        # Rules give both texts one tangent, that of the difference.
        read = found.lead, found.read, found.mlp_read, found.trace.scales.attention_post
        first: tuple[Array, Array, Any, Any] = jax.tree.map(lambda x: x[0], read)
        return first

    def ends_of(source: Float[Array, " n_sources"]) -> Float[Array, "n_kinds n_ends"]:
        lead, read, mlp_read, divisor = carry(source)
        edges = jnp.zeros((len(KINDS), n_nodes + 1), lead.dtype).at[-1, -1].set(lead)
        edges = edges.at[:3, :-1].set(jnp.einsum("knsd,nsd->kn", into_heads, read[layer]))
        if mlp_read is not None:
            there = mlp_read[layer, at]
            edges = edges.at[3:5, :-1].set(jnp.einsum("knd,nd->kn", into_mlps, there))
        if divisor is not None:
            edges = edges.at[5, :-1].set(by_divisor * divisor[layer, at])
        return edges

    sources = jnp.eye(n_nodes + n_ctx, dtype=each.lead.dtype)
    carry = jax.linearize(carried, jnp.zeros_like(sources[0]))[1]
    return jnp.moveaxis(jax.lax.map(ends_of, sources, batch_size=_SOURCES), 0, -1)


def _into_heads(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    multipliers: Interventions,
    each: Pass,
    chosen: Int[Array, "n_nodes 4"],
) -> Float[Array, "3 n_nodes n_ctx d_model"]:
    """Multipliers of what each head that is a node reads, by its own position alone."""
    _, layer, which, at = chosen.T
    scales = NormScales(attention_post=each.trace.scales.attention_post)
    by_destination = _by_destination(model, texts, multipliers, each, scales)

    def with_those_at(found: Array, dest: Array) -> tuple[Array, None]:
        here = by_destination(dest)[:, layer, which]
        return jnp.where((at == dest)[None, :, None, None], here, found), None

    none = jnp.zeros((3, *chosen.shape[:1], *each.read.shape[2:]), each.read.dtype)
    return jax.lax.scan(with_those_at, none, jnp.arange(texts.shape[1]))[0]


def _into_mlps(
    model: Model,
    multipliers: Interventions,
    each: Pass,
    layer: Int[Array, " n_nodes"],
    at: Int[Array, " n_nodes"],
) -> Float[Array, "2 n_nodes d_model"]:
    """Multipliers of what each MLP that is a node reads: by its gate, and by what that opens."""
    weights, by_units = model.blocks.mlp, multipliers.add.post
    if weights is None or multipliers.mlp_read_add is None or by_units is None:
        return jnp.zeros((2, len(layer), model.d_model), each.lead.dtype)
    whole = multipliers.mlp_read_add[layer, at]
    if each.opened is None:
        return jnp.stack([jnp.zeros_like(whole), whole])
    units = each.opened.mean(axis=0)[layer, at] * by_units[layer, at]
    by_unit = jnp.einsum("nm,ndm->nd", units, weights.W_in[layer])
    return jnp.stack([whole - by_unit, by_unit])
