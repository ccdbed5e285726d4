"""An explained prediction as one self-contained HTML page: no server, no other file.

The difference of two texts has a page too: what crosses where, and by whom.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from circuitax.display.viewers import Viewer, viewer_page, visible

DIGITS = 4
LONGEST = 40  # characters of a token
EDGES = 700  # largest edges of a graph that the page holds, beside those on proven paths
PARTS = 7  # largest parts listed of a gate or a score
HOW = (
    "Patterns, norm scales and gates are held at this run's values: sums of paths say how the "
    "number came about, not what another text would give."
)


@runtime_checkable
class Explained(Protocol):
    """Fields of `circuits.explanation.Explanation` for the page; that module imports JAX."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def position(self) -> int: ...
    @property
    def next_tokens(self) -> tuple[str, ...]: ...
    @property
    def next_probs(self) -> np.ndarray: ...
    @property
    def next_logits(self) -> np.ndarray: ...
    @property
    def logit(self) -> float: ...
    @property
    def bias(self) -> float: ...
    @property
    def remainder(self) -> float: ...
    @property
    def paths(self) -> Any: ...
    @property
    def heads(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def patterns(self) -> np.ndarray: ...
    @property
    def written(self) -> Sequence[Sequence[Sequence[tuple[str, float]]]]: ...
    @property
    def title(self) -> str: ...
    @property
    def chosen(self) -> str: ...
    @property
    def by_head(self) -> np.ndarray: ...
    @property
    def graphs(self) -> Sequence[Any]: ...
    def sources(self) -> list[tuple[str, float]]: ...
    def ranked(self) -> list[tuple[str, float]]: ...
    def path_names(self) -> list[str]: ...


def explanation_page(explained: Explained, model: str = "") -> str:
    """The page: which tokens the prediction comes from, and its paths as a graph to explore.

    Below that are heads with what they look at and write, paths and direct effects. All of it works
    from a file, without a network, with the keyboard, and without colour.

    Args:
        explained: From `circuits.explanation.explain`.
        model: Name of the model, for the heading.

    Raises:
        ValueError: If it is no explanation.
    """
    if not hasattr(explained, "title"):
        raise ValueError(
            f"explained is a {type(explained).__name__}, must be an explanation: cx.explain(run)"
        )
    title = f"{explained.title}: {model}" if model else explained.title
    return viewer_page(title, explanation_viewer(explained, model))


def explanation_viewer(explained: Explained, model: str = "") -> Viewer:
    """An explained prediction as a part of a page; arguments as for `explanation_page`."""
    title = f"{explained.title}: {explained.logit:+.4f}"
    return Viewer("explanation", title, f"{model}. {HOW}" if model else HOW, page_facts(explained))


def page_facts(explained: Explained) -> dict[str, Any]:
    """Contents of the page, as plain values."""
    paths = explained.paths
    return {
        "tokens": [_visible(token) for token in explained.tokens],
        "position": explained.position,
        "from": _from(explained),
        "graph": _graphs(explained),
        "next": [
            {"token": _visible(token), "prob": float(prob), "logit": short(logit)}
            for token, prob, logit in zip(
                explained.next_tokens, explained.next_probs, explained.next_logits, strict=True
            )
        ],
        "effects": [
            {"name": name, "value": short(value), "head": _code(name)}
            for name, value in explained.ranked()
        ],
        "bias": short(explained.bias),
        "remainder": float(explained.remainder),
        "logit": short(explained.logit),
        "paths": None
        if paths is None
        else {
            "rows": [
                {"name": name, "value": short(value), "heads": _codes(path)}
                for name, value, path in zip(
                    explained.path_names(), paths.values, paths.paths, strict=True
                )
            ],
            "found": short(paths.found),
            "rest": short(paths.remainder),
            "bias": short(paths.bias),
            "bound": float(paths.omitted_bound),
            "complete": bool(paths.complete),
        },
        "heads": _codes(explained.heads),
        "writes": [
            [
                [[_visible(token), round(float(value), 2)] for token, value in place]
                for place in head
            ]
            for head in explained.written
        ],
        "patterns": [
            [[round(float(a), 3) for a in row] for row in pattern] for pattern in explained.patterns
        ],
    }


def _from(explained: Explained) -> str:
    """The first line: tokens that the prediction comes from, with the sum and absolute sum."""
    sources = explained.sources()
    named = ", ".join(f"{name} {value:+.2f}" for name, value in sources[:6])
    absolute = sum(abs(value) for _, value in sources)
    text = f"{explained.chosen!r} comes from {named}; {len(sources)} sources in all, their absolute"
    return f"{text} sum {absolute:.2f} of {explained.logit:+.2f}.".replace("-", "−")


def _graphs(explained: Explained) -> dict[str, Any] | None:
    """The graphs with one list of nodes; of each the largest edges, and the sums of all."""
    tokens = [_visible(token) for token in explained.tokens]
    nodes: dict[Any, dict[str, Any]] = {}
    graphs = []
    for graph in explained.graphs:
        names = [f"{each.node.name} at {tokens[each.node.position]}" for each in graph.nodes]
        columns = [*names, *(f"{token} ({i})" for i, token in enumerate(tokens)), "biases"]
        own, edges, proven = _folded(graph) if explained.position else graph[1:]
        for each in own:
            facts = nodes.setdefault(each.node, _node(each))
            facts["why"] = facts["why"] or [_why(why, columns, tokens) for why in each.reasons]
        places = list(nodes)
        sizes = np.abs(edges)
        order = np.argsort(-sizes, axis=None, kind="stable")
        kept = [
            (int(end), int(begin))
            for rank, (end, begin) in enumerate(
                zip(*np.unravel_index(order, edges.shape), strict=True)
            )
            if sizes[end, begin] > 0 and (rank < EDGES or proven[end, begin])
        ]
        if not kept:
            continue
        graphs.append(
            {
                "title": graph.title,
                "nodes": [places.index(each.node) for each in own],
                "edges": [
                    [begin, end, short(edges[end, begin]), int(proven[end, begin])]
                    for end, begin in kept
                ],
                "sources": [short(x) for x in edges[:, len(own) :].sum(axis=0)],
                "all": {
                    "count": int((sizes > 0).sum()),
                    "size": short(sizes.sum()),
                    "into": short(edges[-1].sum()),
                    "intoSize": short(sizes[-1].sum()),
                },
            }
        )
    if not graphs:
        return None
    proof = "No path is marked as proven: ask for a proof with --paths 10 (n_paths=10)."
    if explained.paths is not None:
        proof = "The search for the largest paths ended early: no edge is marked as proven."
        if explained.paths.complete:
            proof = (
                f"On one of the {len(explained.paths.values)} largest paths, proven that no other "
                "is larger."
            )
    return {
        "tokens": tokens,
        "position": explained.position,
        "chosen": _visible(explained.chosen),
        "logit": short(explained.logit),
        "sink": explained.position > 0,
        "proof": proof,
        "nodes": list(nodes.values()),
        "graphs": graphs,
    }


def _folded(graph: Any) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Nodes, edges and proven ones with all that stands at position 0 as its token, the sink."""
    first = np.array([each.node.position == 0 for each in graph.nodes], bool)
    own, at = np.append(~first, True), len(first)
    columns = np.append(~first, np.ones(graph.edges.shape[1] - at, bool))
    edges, proven = graph.edges[own].copy(), graph.proven[own].copy()
    edges[:, at] += edges[:, :at][:, first].sum(axis=1)
    proven[:, at] |= proven[:, :at][:, first].any(axis=1)
    nodes = [each for each, out in zip(graph.nodes, first, strict=True) if not out]
    return nodes, edges[:, columns], proven[:, columns]


def _node(each: Any) -> dict[str, Any]:
    node = each.node
    label = {"head": node.name, "unit": f"n{node.which}", "mlp": "mlp"}[node.kind]
    return {
        "name": node.name,
        "label": label,
        "kind": node.kind,
        "row": node.layer + (0 if node.kind == "head" else 0.5),
        "at": node.position,
        "value": short(each.value),
        "looks": [[at, round(weight, 3), short(moved)] for at, weight, moved in each.looks],
        "raises": [_visible(token) for token in each.raises],
        "lowers": [_visible(token) for token in each.lowers],
        "why": [],
    }


def _why(why: Any, columns: Sequence[str], tokens: Sequence[str]) -> dict[str, Any]:
    """A reason with its largest parts."""
    order = np.argsort(-np.abs(why.parts), kind="stable")[:PARTS]
    if why.what == "gate":
        title, note = "Who opened its gate", "The gate's input, by what it comes from."
    else:
        side = {"keys": "what stands there (keys)", "query": "what asks for it (query)"}[why.what]
        title = f"What moved its attention to {tokens[why.about]} ({why.about}): {side}"
        note = "Its score there over the mean of its other scores, by what it comes from."
    return {
        "title": title,
        "note": note,
        "value": short(why.value),
        "parts": [[columns[i], short(why.parts[i])] for i in order],
    }


def short(value: Any) -> float:
    return round(float(value), DIGITS)


def _codes(heads: Sequence[Sequence[int]]) -> list[str]:
    return [f"{layer}.{head}" for layer, head in heads]


def _code(name: str) -> str | None:
    return name.removeprefix("head ") if name.startswith("head ") else None


def _visible(token: str) -> str:
    return visible(token, LONGEST) or "∅"


SMALLEST = 1e-3  # of the largest, below which a move is not kept
HOW_CONTRASTED = (
    "Both texts were run; nothing is held. Each column is a position, each row a layer. Bands show "
    "how much of the difference stands at a position, arcs what heads move between positions. At "
    "every height all bands sum to the whole difference."
)


def contrast_page(contrasted: Any, kinds: Sequence[str], model: str = "") -> str:
    """The page of a `circuits.explain.contrasted.Contrasted`; that module imports JAX."""
    return viewer_page(contrasted.title, contrast_viewer(contrasted, kinds, model))


def contrast_viewer(contrasted: Any, kinds: Sequence[str], model: str = "") -> Viewer:
    """The same as a part of a page."""
    text = f"{model}. {HOW_CONTRASTED}" if model else HOW_CONTRASTED
    return Viewer(
        "contrast", contrasted.title.replace("-", "−"), text, contrast_facts(contrasted, kinds)
    )


def contrast_facts(contrasted: Any, kinds: Sequence[str]) -> dict[str, Any]:
    """Contents of the page, as plain values."""
    names = [[visible(token, LONGEST) or "∅" for token in text] for text in contrasted.tokens]
    moved = np.stack([contrasted.moves.value, contrasted.moves.query, contrasted.moves.key])
    least = SMALLEST * np.abs(moved).max(initial=0)
    nodes = []
    for i, (node, (raises, lowers)) in enumerate(
        zip(contrasted.nodes, contrasted.words, strict=True)
    ):
        facts = {
            "name": node.name,
            "kind": node.kind,
            "layer": node.layer,
            "at": node.position,
            "value": short(contrasted.edges[:, i].sum()),
            "raises": [visible(word, LONGEST) for word in raises],
            "lowers": [visible(word, LONGEST) for word in lowers],
            "moves": [],
            "patterns": [],
        }
        if node.kind == "head":
            here = moved[:, node.layer, node.which, node.position]
            looks = contrasted.moves.patterns[:, node.layer, node.which, node.position]
            facts["moves"] = [
                [int(at), int(kind), short(here[kind, at])]
                for kind, at in zip(*np.nonzero(np.abs(here) > least), strict=True)
            ]
            facts["patterns"] = [[round(float(a), 3) for a in row] for row in looks]
        nodes.append(facts)
    sizes = np.abs(contrasted.edges)
    order = np.argsort(-sizes, axis=None, kind="stable")[:EDGES]
    places = zip(*np.unravel_index(order, sizes.shape), strict=True)
    return {
        "tokens": list(zip(*names, strict=True)),
        "position": contrasted.position,
        "metric": visible(contrasted.chosen, LONGEST)
        + ("" if contrasted.against is None else f" − {visible(contrasted.against, LONGEST)}"),
        "delta": short(contrasted.delta),
        "flow": [[short(x) for x in row] for row in contrasted.found.flow],
        "kinds": list(kinds),
        "nodes": nodes,
        "edges": [
            [int(begin), int(end), int(kind), short(contrasted.edges[kind, end, begin])]
            for kind, end, begin in places
            if sizes[kind, end, begin] > 0
        ],
    }
