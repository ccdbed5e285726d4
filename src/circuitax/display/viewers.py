"""Viewers: interactive parts of a page, with their style and script beside this file."""

import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# The files that draw each kind; the last one has its function.
SCRIPTS = {
    "attention": ("attention.js",),
    "explanation": ("path_graph.js", "explanation.js"),
    "contrast": ("contrast.js",),
    "directions": ("directions.js",),
    "tokenTables": ("token_tables.js",),
}


PAGE = "page.html"


class Viewer(NamedTuple):
    """One interactive viewer.

    Attributes:
        kind: A key of `SCRIPTS`.
        title: What it shows.
        text: A sentence more: what to do with it, and what the data are.
        facts: What it draws, plain values that JSON can hold.
    """

    kind: str
    title: str
    text: str
    facts: Mapping[str, Any]


def viewer_section(viewer: Viewer) -> str:
    """The part of a page that holds one viewer."""
    if viewer.kind not in SCRIPTS:
        raise ValueError(f"kind={viewer.kind!r} must be one of {', '.join(SCRIPTS)}")
    # No text of a token may end the script that holds it.
    data = json.dumps(viewer.facts, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return (
        f'<section class="viewer" data-viewer="{viewer.kind}">\n'
        f"<h4>{html.escape(viewer.title)}</h4>\n<p>{html.escape(viewer.text)}</p>\n"
        '<div class="stage"><noscript>This viewer needs JavaScript.</noscript></div>\n'
        f'<script type="application/json">{data.replace("<", chr(92) + "u003c")}</script>\n'
        "</section>"
    )


def viewer_page(title: str, viewer: Viewer) -> str:
    """One self-contained HTML page with one viewer."""
    put = {
        "@TITLE@": html.escape(title),
        "@STYLE@": viewer_style(),
        "@SECTION@": viewer_section(viewer),
        "@SCRIPT@": viewer_script([viewer.kind]),
    }
    return re.sub("|".join(put), lambda found: put[found[0]], _text(PAGE))


def viewer_frame(viewer: Viewer, height: int) -> str:
    """The page of one viewer in a frame of its own, for a cell of a notebook."""
    page = html.escape(viewer_page(viewer.title, viewer))
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def viewer_script(kinds: Iterable[str]) -> str:
    """The script that draws all viewers of these kinds; it goes below their sections."""
    names = dict.fromkeys(name for kind in sorted(set(kinds)) for name in SCRIPTS[kind])
    return '"use strict";\n' + "".join(map(_text, ("viewers.js", *names))) + _START


def viewer_style() -> str:
    """The style sheet of all viewers."""
    return _text("viewers.css")


_START = """\
document.querySelectorAll("[data-viewer]").forEach(section => VIEWERS[section.dataset.viewer](
  section.querySelector(".stage"), JSON.parse(section.querySelector("script").textContent)));
"""


@cache
def _text(name: str) -> str:
    return files("circuitax.display").joinpath(name).read_text(encoding="utf-8")


_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
_WHOLE = {"<|endoftext|>": "‹text›"}  # the boundary before a document


def visible(token: str, most: int = 9) -> str:
    """A token with spaces and breaks visible, runs of them counted, long ones truncated."""
    if token in _WHOLE:
        return _WHOLE[token]
    parts = []
    for character, run in groupby(token):
        n = len(list(run))
        mark = _MARKS.get(character, character if character.isprintable() else "·")
        parts.append(f"{mark}×{n}" if character in _MARKS and n > 2 else mark * n)
    text = "".join(parts)
    return text if len(text) <= most else text[: most - 1] + "…"


MOST = 500_000  # weights in one viewer, about a megabyte
HOW = "Choose a head, and a token to see where the head looks from there."


def attention_viewer(title: str, tokens: list[str], patterns: ArrayLike) -> Viewer | None:
    """The viewer of attention over a text; None where it would take megabytes."""
    A = np.asarray(patterns, float)
    n_layers, n_heads, n_ctx, _ = A.shape
    if not n_layers * n_heads or A.size > MOST or not np.isfinite(A).all():
        return None
    percents = np.rint(100 * A).astype(int)
    causal = not np.triu(percents, 1).any()
    rows = [
        [[int(x) for x in row[: i + 1 if causal else n_ctx]] for i, row in enumerate(head)]
        for head in percents.reshape(-1, n_ctx, n_ctx)
    ]
    heads = [f"{layer}.{head}" for layer in range(n_layers) for head in range(n_heads)]
    return Viewer("attention", title, HOW, {"tokens": tokens, "heads": heads, "patterns": rows})
