"""Graphs of chosen nodes: every path is on its edges, and what enters a node leaves it."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.groups import cut_before_gates, path_groups
from circuitax.circuits.paths.path_graph import Node, Questions, path_graph, source_rows
from circuitax.kernel.run import Run, run
from tests.circuits.paths.test_frozen import CASES, H, L, tiny


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=60), st.integers(7, 130))
def test_every_position_that_a_source_reaches_has_a_row_in_its_block(
    sources: list[tuple[int, int]], n_ctx: int
) -> None:
    first, layers = [at for at, _ in sources], [layer for _, layer in sources]
    source, place, begins, of = map(np.asarray, source_rows(first, layers, n_ctx))
    n_rows = source.size // begins.size
    empty = of[-1, 0]
    assert source[empty] == len(first) and (of[-1] == empty).all()
    for each, (at, layer) in enumerate(sources):
        own = of[each, at:]
        assert (source[own] == each).all() and place[own].tolist() == list(range(at, n_ctx))
        assert (of[each, :at] == empty).all()
        block = np.unique(own // n_rows)
        assert block.size == 1 and begins[block[0]] <= layer
    assert (source < len(first)).sum() == sum(n_ctx - at for at in first)
    for block, begun in enumerate(begins):
        held = source[block * n_rows : (block + 1) * n_rows]
        written = [layers[each] for each in held if each < len(first)]
        assert begun == min(written, default=np.iinfo(np.int32).max)


TEXT = [3, 1, 4]
NODES = (
    Node("head", 0, 1, 1),
    Node("head", 1, 0, 2),
    Node("unit", 0, 4, 1),
    Node("mlp", 1, 0, 2),
    Node("head", 0, 0, 2),
    Node("unit", 0, 2, 2),
)
LOGIT = len(NODES)


def seen_of(name: str) -> Run:
    compiled = jax.jit(run, static_argnames="outputs")
    return compiled(tiny(name), jnp.asarray(TEXT), outputs=True)


def frozen_of(name: str, **how: str) -> FrozenModel:
    return frozen_model(seen_of(name), **how)


Path = tuple[np.ndarray, int, tuple[int, ...]]


def paths_of(frozen: FrozenModel, row: np.ndarray, at: int, begin: float) -> Iterator[Path]:
    """All paths of one row of the stream: where each ends, and the chosen nodes on its way.

    Args:
        frozen: Of NumPy arrays.
        row: What enters.
        at: Its position.
        begin: The layer; a half more where the row enters behind the heads of that layer, three
            quarters where behind its MLP.
    """
    maps, after = frozen.maps, float(frozen.maps.after_heads)
    found: list[tuple[np.ndarray, int, tuple[int, ...], bool]] = [(row, at, (), begin % 1 == 0.5)]
    for layer in range(int(begin), L):
        if layer > begin or begin % 1 == 0:
            found = [(x, t, way, False) for x, t, way, _ in found]
            for x, s, way, _ in list(found):
                for head in range(H):
                    for t in range(s, len(TEXT)):
                        node = Node("head", layer, head, t)
                        y = frozen.A[layer, head, t, s] * (
                            x @ frozen.W_V[layer, head] @ frozen.W_O[layer, head]
                        )
                        on = (NODES.index(node),) if node in NODES else ()
                        found.append((y, t, way + on, True))
        if layer > begin or begin % 1 != 0.75:
            for x, t, way, by_head in list(found):
                hidden = sum(
                    (x @ W) * g[t]
                    for W, g in zip(maps.W_in[layer], maps.factors[layer], strict=True)
                )
                if maps.W_hidden is not None:
                    for W, g in zip(maps.W_hidden[layer], maps.hidden_factors[layer], strict=True):
                        hidden = (hidden @ W) * g[t]
                for unit, z in enumerate(hidden * (after if by_head else 1.0)):
                    on = tuple(
                        i
                        for i, node in enumerate(NODES)
                        if node[1] == layer
                        and node.position == t
                        and (node.kind == "mlp" or (node.kind == "unit" and node.which == unit))
                    )
                    found.append((z * maps.W_out[layer, unit], t, way + on, False))
    for x, t, way, _ in found:
        yield x, t, way


@pytest.mark.parametrize("name", [case for case in CASES if not case.startswith("post_ln")])
def test_every_path_is_on_its_edges(name: str, x64: None) -> None:
    every_path_is_on_its_edges(frozen_of(name), 2)


def test_every_path_by_the_half_rule_is_on_its_edges_inside_a_text(x64: None) -> None:
    every_path_is_on_its_edges(frozen_of("gated_biases", gates="shared"), 1)


def every_path_is_on_its_edges(model: FrozenModel, position: int) -> None:
    embedding, frozen = np.asarray(model.embedding), jax.tree.map(np.asarray, model)
    w = frozen.read_out.W_U[:, 7]
    along = w if frozen.read_out.scale is None else w / frozen.read_out.scale[position]
    want = np.zeros((LOGIT + 1, LOGIT + len(TEXT) + 1))

    def put(source: int, paths: Iterator[Path], first: tuple[int, ...] = ()) -> None:
        for x, t, way in paths:
            if t == position:
                chain = [source, *first, *way]
                for u, v in zip(chain, [*chain[1:], LOGIT], strict=True):
                    want[v, u] += x @ along

    biases = LOGIT + len(TEXT)
    for s in range(len(TEXT)):
        put(LOGIT + s, paths_of(frozen, embedding[s], s, 0))
        for layer in range(L):
            if frozen.b_O is not None:
                put(biases, paths_of(frozen, frozen.b_O[layer], s, layer + 0.5))
            put(biases, paths_of(frozen, frozen.maps.constant[layer, s], s, layer + 0.75))
            for head in range(H if frozen.b_V is not None else 0):
                node = Node("head", layer, head, s)
                row = frozen.b_V[layer, head, s] @ frozen.W_O[layer, head]
                on = (NODES.index(node),) if node in NODES else ()
                put(biases, paths_of(frozen, row, s, layer + 0.5), on)
    found = path_graph(model, NODES, position, model.read_out.W_U[:, 7])
    np.testing.assert_allclose(found.edges, want, rtol=0, atol=1e-12 * np.abs(want).max())
    assert (np.abs(want) > 1e-9).sum() > 10 * position, "most edges carry something"


@pytest.mark.parametrize("name", CASES)
def test_what_enters_a_node_leaves_it_and_the_logit_gets_all(name: str, x64: None) -> None:
    seen = seen_of(name)
    frozen = frozen_model(seen)
    w = frozen.read_out.W_U[:, 5]
    for nodes in ((), NODES, NODES[:2]):
        edges = np.asarray(path_graph(frozen, nodes, 2, w).edges)
        n = len(nodes)
        b_U = 0.0 if frozen.read_out.b_U is None else float(frozen.read_out.b_U[5])
        np.testing.assert_allclose(edges[n].sum() + b_U, seen.logits[2, 5], rtol=1e-12)
        np.testing.assert_allclose(edges[:n].sum(axis=1), edges[:, :n].sum(axis=0), rtol=1e-10)
    by_source = path_groups(frozen, 2, w).by_source
    alone = np.asarray(path_graph(frozen, (), 2, w).edges)[0]
    np.testing.assert_allclose(alone, np.append(by_source[1:], by_source[0]), rtol=1e-9, atol=1e-12)


def test_mlps_as_sources_are_biases_of_the_graph_of_heads(x64: None) -> None:
    frozen = frozen_of("gelu", mlps="sources")
    seen, w = seen_of("gelu"), frozen.read_out.W_U[:, 5]
    edges = np.asarray(path_graph(frozen, NODES[:2], 2, w).edges)
    b_U = 0.0 if frozen.read_out.b_U is None else float(frozen.read_out.b_U[5])
    np.testing.assert_allclose(edges[2].sum() + b_U, seen.logits[2, 5], rtol=1e-12)
    np.testing.assert_allclose(edges[:2].sum(axis=1), edges[:, :2].sum(axis=0), rtol=1e-10)


def test_many_nodes_and_positions_fill_several_blocks(x64: None) -> None:
    rng, n_ctx = np.random.default_rng(0), 40
    model = tiny("gated_biases", n_ctx=n_ctx)
    seen = jax.jit(run, static_argnames="outputs")(
        model, jnp.asarray(rng.integers(0, model.d_vocab, n_ctx)), outputs=True
    )
    frozen = frozen_model(seen)
    cells = rng.permutation([(layer, unit, at) for layer, unit, at in np.ndindex(L, 5, n_ctx)])
    nodes = [Node("head", 1, head, at) for head in range(H) for at in (3, 17, 39)]
    nodes += [Node("unit", *(int(i) for i in cell)) for cell in cells[:34]]
    nodes.append(Node("unit", 0, 5, 12))
    w = frozen.read_out.W_U[:, 5]
    edges = np.asarray(path_graph(frozen, nodes, n_ctx - 1, w).edges)
    n, alone = len(nodes), path_groups(frozen, n_ctx - 1, w).by_source
    np.testing.assert_allclose(edges[:n].sum(axis=1), edges[:, :n].sum(axis=0), atol=1e-10)
    np.testing.assert_allclose(edges[-1].sum(), alone.sum(), rtol=1e-10)
    # Without the last unit what each source gave to it goes on, as its share of the unit's flow.
    fewer = np.asarray(path_graph(frozen, nodes[:-1], n_ctx - 1, w).edges)
    through = np.outer(edges[:, n - 1], edges[n - 1]) / edges[n - 1].sum()
    want = np.delete(np.delete(edges + through, n - 1, axis=0), n - 1, axis=1)
    np.testing.assert_allclose(fewer, want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["gated_biases", "post_ln"])
def test_nodes_in_another_order_have_the_same_edges(name: str, x64: None) -> None:
    frozen = frozen_of(name)
    w = frozen.read_out.W_U[:, 5]
    nodes = [Node("head", *at) for at in np.ndindex(L, H, len(TEXT))] + [Node("unit", 1, 3, 0)]
    order = np.random.default_rng(0).permutation(len(nodes))
    found = path_graph(frozen, nodes, 2, w)
    other = path_graph(frozen, [nodes[i] for i in order], 2, w)
    rows, columns = np.append(order, len(nodes)), np.append(order, len(nodes) + np.arange(4))
    edges = np.asarray(found.edges)
    np.testing.assert_allclose(other.edges, edges[rows][:, columns], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(other.written, np.asarray(found.written)[order], rtol=1e-12)
    assert (np.abs(edges[:, : len(nodes)]) > 1e-9).sum() > 12, "late heads read all earlier ones"


@pytest.mark.parametrize("name", ["gelu", "gated_biases", "parallel", "post_ln"])
def test_a_question_is_split_as_the_model_cut_there(name: str, x64: None) -> None:
    seen = seen_of(name)
    frozen = frozen_model(seen)
    cut = cut_before_gates(seen, frozen, 1)
    w, unit, place = frozen.read_out.W_U[:, 5], 3, 1
    direction = cut.read_out.W_U[:, unit]
    direction = direction if cut.read_out.scale is None else direction / cut.read_out.scale[place]
    directions = jnp.zeros((1, *frozen.tokens.shape)).at[0, place].set(direction)
    asked = Questions(jnp.array([1]), jnp.ones(1), directions)
    nodes = (Node("head", 0, 1, 0), Node("head", 0, 0, 1), Node("unit", 0, 2, 1))
    found = path_graph(frozen, nodes, 2, w, asked)
    want = path_graph(cut, nodes, place, cut.read_out.W_U[:, unit])
    np.testing.assert_allclose(found.asked[0], want.edges[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.edges, path_graph(frozen, nodes, 2, w).edges, rtol=1e-12)
