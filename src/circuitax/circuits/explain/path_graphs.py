"""The graph of an explanation: chosen nodes, their reads and writes, and their causes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.ledger.ledger import Ledger
from circuitax.circuits.paths.components import logits_of, over_mean_token, read_out_of
from circuitax.circuits.paths.frozen import FrozenModel
from circuitax.circuits.paths.groups import carried_back, gate_read_out, neuron_flows
from circuitax.circuits.paths.path_graph import Node, Questions, path_graph
from circuitax.circuits.score_terms import score_directions
from circuitax.circuits.sites import shown
from circuitax.display.tables import documented
from circuitax.kernel.run import Run

RAISED, LOWERED = 4, 3  # next tokens listed of what a node writes
LOOKS = 4  # positions listed that a head moves most from
SHARE = 0.4  # of the nodes that are units or MLPs, where there are heads beside them


@documented
class Reason(NamedTuple):
    """Cause of an open gate or of a head's attention: one number, split over the graph.

    Attributes:
        what: ``"gate"``, or of a score ``"keys"`` and ``"query"``: the same number split twice.
        about: For a score, the position it is of; None for a gate.
        value: The gate's pre-activation; the score less the mean of the scores of the head's other
            positions.
        parts: What it comes from: nodes, tokens, biases of the model as columns of a `Graph`. What
            is missing to the value are biases and position vectors of the query, key or gate.
    """

    what: str
    about: int | None
    value: float
    parts: np.ndarray


@documented
class GraphNode(NamedTuple):
    """One node with what a reader asks about it.

    Attributes:
        node: A head, a hidden unit or an MLP at one position.
        value: All paths through it.
        looks: For a head, positions with the attention on them and what of the value it moves from
            there, largest first.
        raises: The next tokens that what it writes raises most, directly, over the mean token.
        lowers: Those it lowers most.
        reasons: Why it is open; none for an MLP.
    """

    node: Node
    value: float
    looks: tuple[tuple[int, float, float], ...]
    raises: tuple[str, ...]
    lowers: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()


@documented
class Graph(NamedTuple):
    """All paths to the logit over one choice of nodes (`path_graph`).

    Attributes:
        title: Of the choice: ``"heads"``, ``"heads and neurons"``, ``"heads and MLPs"``.
        nodes: By the size of what flows through them within their kind.
        edges: Rows end: nodes, logit; columns begin: nodes, tokens, biases. The last row adds up to
            the logit without ``b_U``.
        proven: Which edges lie on a path that is proven to be among the largest.
    """

    title: str
    nodes: tuple[GraphNode, ...]
    edges: np.ndarray
    proven: np.ndarray


def path_graphs(
    run: Run,
    frozen: FrozenModel,
    position: int,
    direction: Any,
    *,
    n_nodes: int,
    name: Callable[[int], str],
    paths: Ledger | None = None,
) -> tuple[Graph, ...]:
    """The graphs over heads, over heads and neurons, and over heads and MLPs."""
    ahead = carried_back(frozen, position, direction).written
    flows = np.asarray(jnp.einsum("lhtd,ltd->lht", run.trace.head_outputs, ahead), np.float64)
    attention = _Attention(
        *map(
            np.asarray,
            (frozen.A, frozen.W_V, frozen.W_O, run.trace.patterns, run.trace.streams, ahead),
        )
    )
    chains = _proven_chains(paths, position)
    proven = list(dict.fromkeys(node for chain in chains for node in chain))

    def heads(most: int) -> list[Node]:
        ranked = [Node("head", *place) for place in _ranked(flows, most)]
        kept = list(dict.fromkeys([*proven, *ranked]))[: max(most, len(proven))]
        return sorted(kept, key=lambda node: -abs(flows[node[1:]]))

    chosen = {"heads": heads(n_nodes)}
    units = None
    if frozen.maps is not None:
        units = np.asarray(neuron_flows(run, frozen, position, direction), np.float64)
        others = int(SHARE * n_nodes)
        few = heads(n_nodes - others)
        neurons = [Node("unit", at[0], at[2], at[1]) for at in _ranked(units, others)]
        whole = [Node("mlp", at[0], 0, at[1]) for at in _ranked(units.sum(axis=-1), others)]
        chosen = {"heads and neurons": [*few, *neurons], **chosen, "heads and MLPs": [*few, *whole]}
    found = []
    for i, (title, nodes) in enumerate(shown(list(chosen.items()), "graphs of paths")):
        about = _Asked(run, frozen, nodes, attention) if i == 0 else None
        asked = None if about is None else about.questions
        graph = path_graph(frozen, nodes, position, direction, asked)
        edges = np.asarray(graph.edges, np.float64)
        reasons = {} if about is None else about.reasons(np.asarray(graph.asked, np.float64))
        words = raised_and_lowered(run, graph.written, name)
        described = tuple(
            GraphNode(
                node,
                float(edges[n].sum()),
                attention.looks(node),
                *words[n],
                tuple(reasons.get(node, ())),
            )
            for n, node in enumerate(nodes)
        )
        marked = _marked(nodes, edges.shape, chains, paths, position)
        found.append(Graph(title, described, edges, marked))
    return tuple(found)


class _Attention(NamedTuple):
    """Attention of all heads on the host, where an index makes no program of its own."""

    A: np.ndarray
    W_V: np.ndarray
    W_O: np.ndarray
    patterns: np.ndarray
    streams: np.ndarray
    ahead: np.ndarray

    def looks(self, node: Node) -> tuple[tuple[int, float, float], ...]:
        """Positions a head moves most from, each with its attention and its part of the value."""
        if node.kind != "head":
            return ()
        _, layer, head, at = node
        read = self.W_V[layer, head] @ (self.W_O[layer, head] @ self.ahead[layer, at])
        moved = self.A[layer, head, at] * (self.streams[layer] @ read)
        pattern = self.patterns[layer, head, at]
        best = np.argsort(-np.abs(moved), kind="stable")[:LOOKS]
        return tuple((int(s), float(pattern[s]), float(moved[s])) for s in best if pattern[s] > 0)

    def contrast(self, node: Node) -> tuple[int | None, np.ndarray]:
        """The position a head moves most from, and weights of its score less the others' mean."""
        pattern = self.patterns[node.layer, node.which, node.position]
        seen, weights = np.flatnonzero(pattern > 0), np.zeros(len(pattern))
        if len(seen) < 2:
            return None, weights
        best = self.looks(node)[0][0]
        weights[seen] = -1 / (len(seen) - 1)
        weights[best] = 1
        return best, weights


class _Asked:
    """Questions about the nodes: one of a neuron's gate, two of a head's attention."""

    def __init__(
        self, run: Run, frozen: FrozenModel, nodes: Sequence[Node], attention: _Attention
    ) -> None:
        self.keys: list[tuple[Node, str, int | None]] = []
        self.values: list[float] = []
        n_ctx, d_model = frozen.embedding.shape
        directions: list[Any] = []
        asked = [(node, *attention.contrast(node)) for node in nodes if node.kind == "head"]
        if asked:
            layer, head, dest = (jnp.asarray([node[i] for node, _, _ in asked]) for i in (1, 2, 3))
            weights = jnp.asarray(np.stack([w for _, _, w in asked]), frozen.tokens.dtype)
            told = jax.tree.map(np.asarray, _directions(run, layer, head, dest, weights))
            for i, (node, best, _) in enumerate(asked):
                self.keys += [(node, "keys", best), (node, "query", best)]
                self.values += [float(told.value[i])] * 2
                directions += [told.key[i], told.query[i]]
        for node in nodes:
            if node.kind == "unit":
                gates = jax.tree.map(np.asarray, gate_read_out(run, node.layer))
                w = gates.W_U[:, node.which]
                w = w if gates.scale is None else w / gates.scale[node.position]
                at = np.zeros((n_ctx, d_model), w.dtype)
                at[node.position] = w
                bias = 0.0 if gates.b_U is None else float(gates.b_U[node.which])
                self.keys.append((node, "gate", None))
                self.values.append(bias)
                directions.append(at)
        layers = jnp.asarray([node.layer for node, _, _ in self.keys], int)
        behind = [float(what == "gate") for _, what, _ in self.keys]
        stacked = np.reshape(directions, (-1, n_ctx, d_model))
        dtype = frozen.tokens.dtype
        self.questions = Questions(layers, jnp.asarray(behind, dtype), jnp.asarray(stacked, dtype))

    def reasons(self, parts: np.ndarray) -> dict[Node, list[Reason]]:
        """The answers, by node."""
        found: dict[Node, list[Reason]] = {}
        for (node, what, about), value, row in zip(self.keys, self.values, parts, strict=True):
            if what == "gate":
                value = value + float(row.sum())
            elif about is None:
                continue
            found.setdefault(node, []).append(Reason(what, about, value, row))
        return found


@jax.jit
def _directions(run: Run, layer: Any, head: Any, dest: Any, weights: Any) -> Any:
    each = lambda *at: score_directions(run, *at)  # noqa: E731
    return jax.vmap(each)(layer, head, dest, weights)


def raised_and_lowered(
    run: Run, written: jax.Array, name: Callable[[int], str]
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Next tokens that each row raises and lowers most, over the mean token."""
    read_out = read_out_of(over_mean_token(run))._replace(scale=None, b_U=None)
    logits = np.asarray(logits_of(written, read_out))
    order = [np.argsort(-row, kind="stable") for row in logits]
    return [
        (
            tuple(name(int(i)) for i in row[:RAISED]),
            tuple(name(int(i)) for i in row[::-1][:LOWERED]),
        )
        for row in order
    ]


def _ranked(flows: np.ndarray, most: int) -> list[tuple[int, ...]]:
    """Places of the largest flows, the largest first; none that carries nothing."""
    order = np.argsort(-np.abs(flows), axis=None, kind="stable")[:most]
    places = np.stack(np.unravel_index(order, flows.shape), axis=1)
    return [tuple(int(i) for i in at) for at in places if flows[tuple(at)] != 0]


def _proven_chains(paths: Ledger | None, position: int) -> list[tuple[Node, ...]]:
    """The paths of a complete ledger as heads at positions."""
    if paths is None or not paths.complete:
        return []
    return [
        tuple(
            Node("head", layer, head, position if at is None else at)
            for (layer, head), at in zip(path, [*sources[1:], position], strict=False)
        )
        for path, sources in zip(paths.paths, paths.positions, strict=True)
    ]


def _marked(
    nodes: Sequence[Node],
    shape: tuple[int, ...],
    chains: Sequence[Sequence[Node]],
    paths: Ledger | None,
    position: int,
) -> np.ndarray:
    """Edges on proven paths, from their first head on, and from the token it reads."""
    marked = np.zeros(shape, bool)
    if paths is None or not chains:
        return marked
    rows = {node: i for i, node in enumerate(nodes)}
    n_nodes, biases = len(nodes), shape[1] - 1
    for chain, sources in zip(chains, paths.positions, strict=True):
        first = sources[0] if sources else None
        begins = biases if first is None else n_nodes + first
        for node in chain:
            marked[rows[node], begins] = True
            begins = rows[node]
        marked[n_nodes, begins if chain else n_nodes + position] = True
    return marked
