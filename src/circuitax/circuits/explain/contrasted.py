"""Why this and not that: two texts, the nodes that carry their difference, and their words."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.contrast import Contrast, contrast
from circuitax.circuits.contrast_edges import KINDS, Moves, contrast_edges, moves
from circuitax.circuits.explain.path_graphs import raised_and_lowered
from circuitax.circuits.paths.path_graph import Node
from circuitax.display.attribution_graph import attribution_graph
from circuitax.display.explanation_page import contrast_page
from circuitax.display.tables import documented
from circuitax.kernel.run import Run

NAMED = 3  # heads in the first line


@documented
class Contrasted(NamedTuple):
    """The difference of two texts over its largest nodes, in words.

    Attributes:
        found: From `contrast`.
        moves: From `contrast_edges.moves`.
        nodes: Heads and MLPs at positions, the largest first.
        edges: From `contrast_edges.contrast_edges` over them.
        words: Of each node, the next tokens that the difference of what it writes raises and lowers
            most, directly, over the mean token.
        tokens: Both texts, as names of their tokens.
        chosen: The token whose logit is compared.
        against: The token whose logit is subtracted; None for none.
    """

    found: Contrast
    moves: Moves
    nodes: tuple[Node, ...]
    edges: np.ndarray
    words: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    chosen: str
    against: str | None

    @property
    def delta(self) -> float:
        """The difference of the lead."""
        return float(self.found.delta)

    @property
    def position(self) -> int:
        """Where the logit is read."""
        return int(self.found.asked[2])

    @property
    def title(self) -> str:
        """What the difference is, and the heads that carry most: the first line."""
        differ = [(a, b) for a, b in zip(*self.tokens, strict=True) if a != b]
        here, there = (", ".join(map(repr, side)) for side in zip(*differ, strict=True))
        rather = "" if self.against is None else f" rather than {self.against!r}"
        heads = np.asarray(self.found.heads)
        order = np.argsort(-np.abs(heads), axis=None, kind="stable")[:NAMED]
        places = zip(*np.unravel_index(order, heads.shape), strict=True)
        through = ", ".join(f"{l}.{h} ({heads[l, h]:+.1f})" for l, h in places)
        return (
            f"{self.chosen!r}{rather} because {here} instead of {there}: {self.delta:+.2f}, "
            f"through {through}"
        )

    def __str__(self) -> str:
        return self.title

    def text(self, name: Callable[[int], str] = str) -> str:
        """The first line, and the tables of `Contrast`."""
        return f"{self.title}\n{self.found.text(name)}"

    def graph(self, model: str = "") -> str:
        """The graph as JSON in the form of circuit-tracer, all kinds of an edge together."""
        first, second = self.tokens
        tokens = [a if a == b else f"{a} / {b}" for a, b in zip(first, second, strict=True)]
        labels = [
            f"{node.name} raises {' '.join(map(repr, raises))}"
            for node, (raises, _) in zip(self.nodes, self.words, strict=True)
        ]
        return attribution_graph(
            list(zip(self.nodes, labels, strict=True)),
            self.edges.sum(axis=0),
            model=model,
            tokens=tokens,
            ids=[int(i) for i in self.found.tokens[0]],
            n_layers=len(self.found.heads),
            position=self.position,
            goal=self.title,
            token=int(self.found.asked[0]),
            pinned=[i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b],
        )

    def page(self, model: str = "") -> str:
        """One self-contained page of HTML: positions by layers, with what moves between them."""
        return contrast_page(self, KINDS, model)


def explain_contrast(
    run: Run,
    other: Run,
    *,
    token: int | None = None,
    minus: int | None = None,
    position: int = -1,
    name: Callable[[int], str] = str,
    n_nodes: int = 40,
) -> Contrasted:
    """Why this prediction and not that of another text of as many tokens.

    Args:
        run: On the first text, with outputs.
        other: On the second.
        token: Whose logit is compared; the most probable one after the first text.
        minus: Whose logit is subtracted; the most probable one after the second text. None is
            subtracted where both are the same.
        position: Where the logit is read.
        name: The text of a token id.
        n_nodes: How many heads and MLPs at positions become nodes.
    """
    best = [int(np.asarray(each.logits[position]).argmax()) for each in (run, other)]
    token = best[0] if token is None else token
    minus = best[1] if minus is None else minus
    subtracted = None if minus == token else minus
    asked: dict[str, Any] = {"token": token, "minus": subtracted, "position": position}
    found, moved = contrast(run, other, **asked), moves(run, other, **asked)
    heads = np.asarray(moved.value + moved.query + moved.key).sum(axis=-1)
    sizes = {("head", l, h, t): abs(x) for (l, h, t), x in np.ndenumerate(heads)}
    if moved.mlps is not None:
        sizes |= {("mlp", l, 0, t): abs(x) for (l, t), x in np.ndenumerate(np.asarray(moved.mlps))}
    order = sorted((key for key in sizes if sizes[key] > 0), key=lambda key: -sizes[key])
    if not order:
        raise ValueError("other must differ from run at the position or before: nothing moves")
    nodes = tuple(Node(kind, l, which, t) for kind, l, which, t in order[:n_nodes])
    edges = np.asarray(contrast_edges(run, other, nodes, **asked).edges, np.float64)
    heads_wrote, mlps_wrote = moved.wrote
    wrote = [
        heads_wrote[n.layer, n.which, n.position]
        if n.kind == "head" or mlps_wrote is None
        else mlps_wrote[n.layer, n.position]
        for n in nodes
    ]
    tokens = tuple(tuple(name(int(i)) for i in np.asarray(each.tokens)) for each in (run, other))
    return Contrasted(
        jax.tree.map(np.asarray, found),
        jax.tree.map(np.asarray, moved),
        nodes,
        edges,
        tuple(raised_and_lowered(run, jnp.asarray(np.stack(wrote)), name)),
        (tokens[0], tokens[1]),
        name(token),
        None if subtracted is None else name(subtracted),
    )
