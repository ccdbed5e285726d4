"""Tables for notebooks, as HTML without a script: terms that add up, and facts by name."""

import html
from collections.abc import Mapping, Sequence

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:1px 8px;text-align:left;white-space:nowrap;vertical-align:middle"
_SUM = f"{_CELL};border-top:1px solid #888;font-weight:600"
_TRACK = "position:relative;width:16em;height:.8em"
# Negative ones are hollow, so that the sign is seen without colour.
_BAR = ("background:#0072B2", "border:1px solid #D55E00;box-sizing:border-box")


def sum_table(title: str, terms: Sequence[tuple[str, float]], total: str) -> str:
    """Terms with bars, each of which begins where the one above ends, their sum and absolute sum.

    Args:
        title: What is added up.
        terms: Names and finite values, in order.
        total: Name of the sum.
    """
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


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
