"""The items of the five sources, derived from their text.

Headings, numbered statements, figures, tables, footnotes, points of lists, callouts, exercises,
entries of glossary and notation, and displayed formulas. Facts that a text states in passing have
no mark and cannot be derived.
"""

import re
from html import unescape
from pathlib import Path
from typing import NamedTuple

_STATEMENTS = (
    "Definition|Remark|Lemma|Claim|Proposition|Theorem|Corollary|Example|Algorithm|Objective"
    "|Property"
)
_PAPER = {
    "heading": r"^\d(?:\.\d)? [A-Z].*",
    # It stands at the start of a line, with its name in brackets or a full stop.
    "statement": rf"^(?:{_STATEMENTS}) \d+(?: \(.*?\)[.*]|\.)",
    "figure": r"^Figure \d+:.*",
    "table": r"^Table \d+:.*",
    "footnote": r"^[¹²³].*",
    "point": r"^\d\. .*|^- (?!\[).*",
}
_POST = {
    "heading": r"^\d\. .*|^(?!Component)[A-Z][^.:@=\n]{5,50}[a-z)?]$",
    "table": r"^.*(?:Operates on|Per token.*|token pairs|each row\)|Across tokens|inference\))$",
    "point": r"^  \d\. .*",
    "callout": r"^(?!Where)[A-Z][^.:\n]*: .*",
    "code": r"^# ===.*",
}
_CHAPTER = {
    "term": r"- term: \".*\"",
    "heading": r"^##+ .*",
    "figure": r"<figcaption>.*",
    "footnote": r"\{% sidenote .*",
    "point": r"^\d\. .*|^- \*\*.*|^\*\*[A-Z].*",
    "callout": r"^> \*\*.*",
    "exercise": r"<summary>.*",
    "symbol": r"^\| \$.*",
}
_NOTES = {
    "heading": r"<h[23][^>]*>\s*.*",
    "figure": r"(?<=src=\")[^\"]*\.png",
    "point": r"<li>.*",
    "callout": r"<p>Note: .*",
}
_KINDS = (_PAPER, _POST, _CHAPTER, _PAPER, _NOTES)
_LABEL = 48  # characters of an item that the table keeps


class Item(NamedTuple):
    """Something that a source numbers, draws, lists, displays or sets apart."""

    source: str
    kind: str
    number: str
    """Counts the items of one kind in one source, from 1."""
    label: str
    """How it begins, without markup."""


def derive(folder: Path) -> list[Item]:
    """The items of all sources, in the order of each text.

    Args:
        folder: Five text files whose names sort as S0 to S4.
    """
    paths = sorted(folder.glob("*.txt"))
    return [
        item
        for i, (path, kinds) in enumerate(zip(paths, _KINDS, strict=True))
        for item in _items(f"S{i}", path.read_text(encoding="utf-8"), kinds)
    ]


def _items(source: str, text: str, kinds: dict[str, str]) -> list[Item]:
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    # A formula may hold what looks like another kind.
    found = [(m.start(), "formula", m[0]) for m in re.finditer(r"\$\$.*?\$\$", text, re.DOTALL)]
    rest = re.sub(r"\$\$.*?\$\$", lambda m: " " * len(m[0]), text, flags=re.DOTALL)
    for kind, pattern in kinds.items():
        found += [(m.start(), kind, m[0]) for m in re.finditer(pattern, rest, re.MULTILINE)]
    counts: dict[str, int] = {}
    items = []
    for _, kind, words in sorted(found):
        counts[kind] = counts.get(kind, 0) + 1
        items.append(Item(source, kind, str(counts[kind]), _label(words)))
    return items


def _label(words: str) -> str:
    plain = re.sub(r"<[^>]*>?|\{%|%\}|sidenote|- term:|\*|\$|[>|#\"]", " ", words)
    return " ".join(unescape(plain).split())[:_LABEL].strip()
