"""Tables by which results show themselves: as text, and as HTML without a script."""

import html
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

Tuple = TypeVar("Tuple", bound=type)
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def documented(cls: Tuple) -> Tuple:
    """The class itself, whose fields have their docs from ``Attributes:``.

    Without this, ``help`` says "Alias for field number 0" of the first.
    """
    for name, text in described(cls).items():
        getattr(cls, name).__doc__ = text
    return cls


def described(cls: type) -> dict[str, str]:
    """Descriptions of a class's fields, from the ``Attributes:`` of it and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
        section = attributes.partition("\n\n")[0]
        found |= {name: re.sub(r"\s+", " ", text) for name, text in _ENTRY.findall(section)}
    return found


ROWS = 12  # of a printed table, at most

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:1px 8px;text-align:left;white-space:nowrap;vertical-align:middle"
_SUM = f"{_CELL};border-top:1px solid #888;font-weight:600"
_NUMBER = f"{_CELL};text-align:right"
_TRACK = "position:relative;width:16em;height:.8em"
# Negative ones are hollow, so that the sign is seen without colour.
_BAR = ("background:#0072B2", "border:1px solid #D55E00;box-sizing:border-box")


class NumberTable(NamedTuple):
    """Named rows of numbers under a head; as text, and as HTML for a notebook.

    Attributes:
        title: What is shown.
        columns: Heads of the columns.
        rows: Names with a number for each column, of which four digits are shown, or of a count
            all; NaN is left empty. Of more than twelve rows the last ones are counted.
        notes: Lines below.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Any]]]
    notes: Sequence[str] = ()

    def text(self) -> str:
        """Lines of text, of which the longest is that of the table's columns or of a note."""
        shown = [(name, [_number(x) for x in numbers]) for name, numbers in self.rows]
        width = max((len(name) for name, _ in shown), default=0)
        head = f"  {'':<{width}}" + "".join(f"{column:>12}" for column in self.columns)
        lines = [f"  {name:<{width}}" + "".join(f"{x:>12}" for x in cells) for name, cells in shown]
        return "\n".join([self.title, head, *shortened(lines), *self.notes])

    def html(self) -> str:
        """A table without a script."""
        kept = self.rows if len(self.rows) <= ROWS else self.rows[: ROWS - 1]
        rows = [_row(["", *map(html.escape, self.columns)], f"{_NUMBER};font-weight:600")]
        for name, numbers in kept:
            cells = "".join(f'<td style="{_NUMBER}">{_number(x)}</td>' for x in numbers)
            rows.append(f'<tr><td style="{_CELL}">{html.escape(name)}</td>{cells}</tr>')
        notes = [f"and {len(self.rows) - len(kept)} more"] * (len(kept) < len(self.rows))
        below = "".join(f"<div>{html.escape(note)}</div>" for note in [*notes, *self.notes])
        return _table(self.title, rows) + below


def shortened(lines: Sequence[str], most: int = ROWS) -> list[str]:
    """At most the given number of lines, the last of which counts the omitted ones."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"  and {len(lines) - most + 1} more"]


def counted(n: int | np.integer, one: str) -> str:
    """A number with its noun, such as ``1 cell`` and ``3 cells``."""
    return f"{n:,} {one}" if n == 1 else f"{n:,} {one}s"


def sum_table(title: str, terms: Sequence[tuple[str, float]], total: str) -> str:
    """Terms with bars, each beginning where the one above ends, their sum and absolute sum."""
    ends = [0.0]
    for _, value in terms:
        ends.append(ends[-1] + value)
    low, high = min(ends), max(ends)
    width = (high - low) or 1.0
    rows = []
    for (name, value), start, end in zip(terms, ends[:-1], ends[1:], strict=True):
        left = 100 * (min(start, end) - low) / width
        size = 100 * abs(value) / width
        place = f"position:absolute;top:0;bottom:0;left:{left:.2f}%;width:{size:.2f}%"
        bar = f'<div style="{_TRACK}"><i style="{place};{_BAR[value < 0]}"></i></div>'
        rows.append(_row([html.escape(name), _signed(value), bar], _CELL))
    # Where it is far above the sum, terms cancel, and a single one says little.
    absolute = f"absolute sum of the rows {sum(abs(value) for _, value in terms):.4f}"
    rows.append(_row([html.escape(total), _signed(ends[-1]), absolute], _SUM))
    return _table(title, rows)


def fact_table(title: str, facts: Mapping[str, str]) -> str:
    """Names with texts; empty texts are left out."""
    return _table(
        title,
        [
            _row([f"<b>{html.escape(name)}</b>", html.escape(text)], f"{_CELL};white-space:normal")
            for name, text in facts.items()
            if text
        ],
    )


def _table(title: str, rows: Sequence[str]) -> str:
    head = f"<div><b>{html.escape(title)}</b></div>"
    return f'{head}<table style="{_TABLE}"><tbody>{"".join(rows)}</tbody></table>'


def _row(cells: Sequence[str], style: str) -> str:
    return "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for cell in cells) + "</tr>"


def _number(x: Any) -> str:
    if isinstance(x, str):
        return x
    if isinstance(x, int | np.integer):
        return f"{x:,}"
    return "" if np.isnan(x) else f"{x:+.4g}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
