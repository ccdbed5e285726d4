"""One prediction explained: the numbers, and the text that `str` prints of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from circuitax.circuits.explain.path_graphs import Graph
from circuitax.circuits.ledger.ledger import Ledger
from circuitax.circuits.paths.expansion import Head
from circuitax.display.attribution_graph import attribution_graph
from circuitax.display.explanation_page import explanation_viewer
from circuitax.display.tables import documented
from circuitax.display.viewers import viewer_frame

NO_PATHS = "ask for them (--paths 10, or n_paths=10)"


@documented
class Neuron(NamedTuple):
    """A hidden unit of an MLP at one position, with what flows through it to the logit.

    Attributes:
        layer: Of the MLP.
        unit: From 0.
        position: Where it acts.
        value: The sum of all paths through it (`groups.neuron_flows`).
        raises: The next tokens that what it writes raises most, directly, over the mean token.
        gate: The pre-activation of its gate; of the unit itself in an MLP without gate.
        opened_by: What that comes from, largest first: source tokens by all paths, and all biases;
            and, with them summed otherwise, the last heads of these paths.
    """

    layer: int
    unit: int
    position: int
    value: float
    raises: tuple[str, ...]
    gate: float
    opened_by: tuple[tuple[tuple[str, float], ...], tuple[tuple[str, float], ...]]


@documented
class Explanation(NamedTuple):
    """Explanation of one logit at one position, or of the difference of two, from one run.

    Attributes:
        tokens: The text, as names of its tokens.
        position: Where the logit is read, from 0.
        chosen: The token whose logit is explained.
        against: The token whose logit is subtracted; None for none.
        next_tokens: The most probable next tokens.
        next_logits: Their logits.
        next_probs: Their probabilities.
        logit: What is explained.
        names: Components, such as ``tokens``, ``head 0.3``, ``mlp 1``.
        effects: What each adds to the logit, in the order of the names.
        bias: What belongs to no component: ``b_U`` and the final norm's offset.
        remainder: Rounding errors only.
        paths: The largest paths from tokens through heads in the dressed stream, with a bound on
            all others; None where none were asked for.
        heads: The heads that matter, as (layer, head): those on the paths, then by their effect.
        patterns: Their attention, ``[head, n_ctx, n_ctx]``, a row for each destination.
        written: What they add, by head and position: next tokens whose logits rise and fall most,
            with the logit over the mean token.
        by_head: Sums of paths through heads in the dressed stream, by last head and source
            (`groups.PathGroups`); patterns, norm scales and gates are held.
        one_head: The paths of one head from each token, ``[layer, head, token]``.
        orders: Sums of the paths by their number of heads, from none.
        neurons: Hidden units by the size of what flows through them, largest first.
        rival: The most probable other token, over which the lead is split by source as well; None
            where a difference is explained already, or there is no other token.
        lead: What of that lead comes from all biases, that of the logit included, and from each
            token.
        graphs: All paths over a choice of nodes: heads and neurons, heads, heads and MLPs.
        opened: The largest paths with their last stretch opened, each to the head or neuron that
            writes to the logit itself; None where no paths were asked for, or there are no MLPs.
    """

    tokens: tuple[str, ...]
    position: int
    chosen: str
    against: str | None
    next_tokens: tuple[str, ...]
    next_logits: np.ndarray
    next_probs: np.ndarray
    logit: float
    names: tuple[str, ...]
    effects: np.ndarray
    bias: float
    remainder: float
    paths: Ledger | None
    heads: tuple[Head, ...]
    patterns: np.ndarray
    written: tuple[tuple[tuple[tuple[str, float], ...], ...], ...]
    by_head: np.ndarray
    one_head: np.ndarray
    orders: np.ndarray
    neurons: tuple[Neuron, ...]
    rival: str | None
    lead: np.ndarray
    graphs: tuple[Graph, ...] = ()
    opened: Ledger | None = None

    def __str__(self) -> str:
        return "\n".join(_short_lines(self))

    def text(self) -> str:
        """The text in full: sums of paths by source, head and neuron, direct effects, attention."""
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The page of `explanation_page`, for a notebook."""
        return viewer_frame(explanation_viewer(self), 700)

    @property
    def title(self) -> str:
        """Title of the explanation, in words."""
        lead = "" if self.against is None else f" minus {self.against!r}"
        return f"logit of {self.chosen!r}{lead} after {self.tokens[self.position]!r}"

    def graph(self, ids: Sequence[int], token: int, model: str = "") -> str:
        """The first of the graphs as JSON in the form of circuit-tracer, which needs token ids."""
        graph = self.graphs[0]
        return attribution_graph(
            [
                (each.node, f"{each.node.name} raises {' '.join(map(repr, each.raises))}")
                for each in graph.nodes
            ],
            graph.edges,
            model=model,
            tokens=self.tokens,
            ids=ids,
            n_layers=len(self.one_head),
            position=self.position,
            goal=f"{self.title}: {self.logit:+.4f}",
            token=token,
        )

    def ranked(self) -> list[tuple[str, float]]:
        """Components by the size of their effect, largest first."""
        order = np.argsort(-np.abs(self.effects), kind="stable")
        return [(self.names[i], float(self.effects[i])) for i in order]

    def sources(self, of_lead: bool = False) -> list[tuple[str, float]]:
        """Source tokens with the sum of all paths from each, and all biases, largest first."""
        names = ["biases", *(self.at(i) for i in range(len(self.tokens)))]
        return by_size(names, self.lead if of_lead else self.by_head.sum(axis=0))

    def last_heads(self) -> list[tuple[str, float, list[tuple[str, float]]]]:
        """Last heads of paths with the sum of these, and their sources, largest first."""
        names = ["no head", *head_names(*self.one_head.shape[:2])]
        columns = ["biases", *(self.at(i) for i in range(len(self.tokens)))]
        from_each = {
            name: by_size(columns, row) for name, row in zip(names, self.by_head, strict=True)
        }
        ranked = by_size(names, self.by_head.sum(axis=1))
        return [(name, value, from_each[name]) for name, value in ranked]

    def single_paths(self) -> list[tuple[str, float]]:
        """Paths of exactly one head from each token, largest first, as ``' Mary' at 1 → 23.0``."""
        order = np.argsort(-np.abs(self.one_head), axis=None, kind="stable")
        places = np.unravel_index(order, self.one_head.shape)
        return [
            (f"{self.at(int(s))} → {layer}.{head}", float(self.one_head[layer, head, s]))
            for layer, head, s in zip(*places, strict=True)
        ]

    def at(self, position: int) -> str:
        """A token with its position, ``' cat' at 15``."""
        return f"{self.tokens[position]!r} at {position}"

    def path_names(self, paths: Ledger | None = None) -> list[str]:
        """The paths as ``' Mary' at 3 → 23.0``; empty without a ledger."""
        paths = self.paths if paths is None else paths
        if paths is None:
            return []
        steps = [
            [
                f"{'bias' if at is None else self.at(at)} → {layer}.{head}"
                for at, (layer, head) in zip(sources, path, strict=True)
            ]
            for path, sources in zip(paths.paths, paths.positions, strict=True)
        ]
        return paths.to_neurons([" → ".join(step) or "direct" for step in steps])


def _short_lines(explained: Explanation) -> list[str]:
    """Twenty lines of the text, at most."""
    return [*_first_screen(explained), ".text() has all of it, explanation_page(...) as a page"]


def _lines(explained: Explanation) -> list[str]:
    """The text in full."""
    lines = [*_first_screen(explained), "", *_group_lines(explained), "", "next token"]
    width = max(len(repr(token)) for token in explained.next_tokens)
    lines += [
        f"  {token!r:<{width}}  {prob:7.2%}  logit {logit:+.3f}"
        for token, prob, logit in zip(
            explained.next_tokens, explained.next_probs, explained.next_logits, strict=True
        )
    ]
    lines += ["", "paths"]
    if explained.paths is None:
        lines.append(f"  none searched: {NO_PATHS}")
    else:
        lines += _path_lines(explained, explained.paths)
    if explained.opened is not None:
        lines += ["", "paths to the head or neuron that writes to the logit"]
        lines += _path_lines(explained, explained.opened)
    lines += ["", *_head_lines(explained, len(explained.heads))]
    return [*lines, "", *_effect_lines(explained, 16)]


def _first_screen(explained: Explanation, n_rows: int = 4) -> list[str]:
    """Sources of the prediction: tokens, heads, neurons, and their sum beside the absolute sum."""
    best = list(zip(explained.next_tokens, explained.next_probs, strict=True))[:5]
    sources = explained.sources()
    size = sum(abs(value) for _, value in sources)
    rows = [
        (f"{name}", value, f"from {_listed(of[:3])}")
        for name, value, of in explained.last_heads()[:n_rows]
    ]
    neurons = [
        (
            f"{unit.layer}.n{unit.unit}",
            unit.value,
            f"at {explained.at(unit.position)}, raises {' '.join(map(repr, unit.raises))}, "
            f"opened from {_listed(unit.opened_by[0][:1])} by {_listed(unit.opened_by[1][:2])}",
        )
        for unit in explained.neurons[:n_rows]
    ]
    width = max(len(name) for name, _, _ in [*rows, *neurons])
    aligned = [f"  {name:<{width}}  {value:+7.2f}  {note}" for name, value, note in rows + neurons]
    title, named = "largest paths of one head", explained.single_paths()[:3]
    if explained.paths is not None:
        title = "largest paths" + (", proven" if explained.paths.complete else "")
        values = map(float, explained.paths.values[:3])
        named = list(zip(explained.path_names(), values, strict=False))
    kept = np.trim_zeros(np.round(explained.orders, 2), "b")
    return [
        f"{explained.title}: {explained.logit:+.4f}",
        f"from {_listed(sources[:4])} (absolute sum {size:.2f})",
        *_lead_line(explained),
        "next token " + ", ".join(f"{token!r} {prob:.1%}" for token, prob in best),
        "by last head of the path",
        *aligned[: len(rows)],
        *(["by neuron, all that flows through it"] if neurons else []),
        *aligned[len(rows) :],
        f"{title}: {_listed(named)}",
        "by number of heads, from none: "
        + " ".join(f"{x:+.2f}" for x in kept)
        + f" (absolute sum {np.abs(explained.orders).sum():.2f})",
    ]


def _path_lines(explained: Explanation, paths: Ledger) -> list[str]:
    """The paths, their sum, and what the others have."""
    which = "the largest, proven" if paths.complete else "the budget or rounding ended the search"
    rows = [
        *zip(explained.path_names(paths), map(float, paths.values), strict=True),
        (f"sum of these {len(paths.values)} paths ({which})", paths.found),
        (
            f"all other paths, none beyond {paths.omitted_bound:.3g}; sum not proven",
            paths.remainder,
        ),
        ("b_U and the final offset (b_O: direct)", paths.bias),
        ("logit", paths.found + paths.remainder + paths.bias),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {value:+.4f}" for name, value in rows]


def _effect_lines(explained: Explanation, n_effects: int) -> list[str]:
    ranked = explained.ranked()
    shown, rest = ranked[:n_effects], ranked[n_effects:]
    rows: list[tuple[str, float]] = [*shown]
    if rest:
        rows.append((f"{len(rest)} other components", sum(value for _, value in rest)))
    rows += [("bias of the logit", explained.bias), ("rounding", explained.remainder)]
    rows.append(("logit", explained.logit))
    width = max(len(label) for label, _ in rows)
    lines = [f"  {label:<{width}}  {value:+.4f}" for label, value in rows]
    return ["direct effects, which add up to the logit", *lines]


def _head_lines(explained: Explanation, n_heads: int) -> list[str]:
    lines = [f"heads that matter: where each looks from {explained.at(explained.position)}"]
    shown = zip(explained.heads[:n_heads], explained.patterns, strict=False)
    for (layer, head), pattern in shown:
        row = pattern[explained.position]
        best = [int(i) for i in np.argsort(-row, kind="stable")[:3] if row[i] >= 0.01]
        looks = ", ".join(f"{explained.at(i)} {row[i]:.0%}" for i in best)
        lines.append(f"  {layer}.{head:<4} {looks}")
    return lines


def _group_lines(explained: Explanation, n_rows: int = 8) -> list[str]:
    """Sums of paths through heads and MLPs: by number of heads, last head, single path, neuron."""
    held = "patterns, norm scales" + (" and gates" if explained.neurons else "")
    rows: list[tuple[str, float, str]] = []
    for title, given in (
        (
            "last head of the path, and its sources",
            [(name, x, _listed(of[:3])) for name, x, of in explained.last_heads()],
        ),
        ("paths of one head", [(name, x, "") for name, x in explained.single_paths()]),
        (
            "neurons, by all that flows through them",
            [
                (
                    f"mlp {unit.layer}.n{unit.unit}",
                    unit.value,
                    f"at {explained.at(unit.position)}, raises "
                    + " ".join(repr(word) for word in unit.raises)
                    + f"; gate {unit.gate:+.2f}, from {_listed(unit.opened_by[0][:2])}, "
                    + f"by {_listed(unit.opened_by[1][:2])}",
                )
                for unit in explained.neurons
            ],
        ),
    ):
        if given:
            rows += [(title, np.nan, ""), *given[:n_rows]]
    width = max((len(name) for name, x, _ in rows if np.isfinite(x)), default=0)
    lines = [
        f"all paths through heads and MLPs, {held} held; with the bias they add up to the logit",
        f"  absolute sum by source token {np.abs(explained.by_head.sum(axis=0)).sum():.2f}, by "
        f"last head {np.abs(explained.by_head.sum(axis=1)).sum():.2f}, by both "
        f"{np.abs(explained.by_head).sum():.2f}",
    ]
    for name, x, note in rows:
        lines.append(
            f"  {name:<{width}}  {x:+.4f}  {note}".rstrip() if np.isfinite(x) else f" {name}"
        )
    return lines


def _lead_line(explained: Explanation) -> list[str]:
    if explained.rival is None:
        return []
    sources = _listed(explained.sources(of_lead=True)[:4])
    size = np.abs(explained.lead).sum()
    return [
        f"lead over {explained.rival!r} {explained.lead.sum():+.2f} (absolute sum {size:.2f}): "
        f"from {sources}"
    ]


def _listed(rows: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {value:+.2f}" for name, value in rows)


def head_names(n_layers: int, n_heads: int) -> list[str]:
    """``0.0``, ``0.1`` and so on, layer by layer."""
    return [f"{layer}.{head}" for layer in range(n_layers) for head in range(n_heads)]


def by_size(names: list[str], values: np.ndarray) -> list[tuple[str, float]]:
    """Names with their values, largest first in absolute value."""
    order = np.argsort(-np.abs(values), kind="stable")
    return [(names[i], float(values[i])) for i in order]
