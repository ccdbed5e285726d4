"""The difference of two texts as one self-contained HTML page: what crosses where, and by whom."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from circuitax.display.explanation_page import EDGES, LONGEST, short
from circuitax.display.viewers import Viewer, viewer_page, visible

SMALLEST = 1e-3  # of the largest, below which a move is not kept
HOW = (
    "Both texts were run; nothing is held. Each column is a position, each row a layer. Bands show "
    "how much of the difference stands at a position, arcs what heads move between positions. At "
    "every height all bands sum to the whole difference."
)


def contrast_page(contrasted: Any, kinds: Sequence[str], model: str = "") -> str:
    """The page of a `circuits.explain.contrasted.Contrasted`; that module imports JAX."""
    return viewer_page(contrasted.title, contrast_viewer(contrasted, kinds, model))


def contrast_viewer(contrasted: Any, kinds: Sequence[str], model: str = "") -> Viewer:
    """The same as a part of a page."""
    text = f"{model}. {HOW}" if model else HOW
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
