"""One page of results: a title, counts, and figures with their messages."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from circuitax.figures.palette import GREY
from circuitax.figures.wrapping import wrapped

SIZE = (23.4, 16.5)  # inches: A2 across
COLUMNS = 3
_DPI = 300  # of the pictures inside
_HEADING = 16  # points
_HEAD, _MARGIN, _TEXT = 0.17, 0.02, 0.075  # shares of the page: title, borders, text of a panel


class Panel(NamedTuple):
    """One figure of the poster.

    Attributes:
        chapter: What it belongs to.
        message: What it shows, one sentence.
        note: Where it comes from, and how its claims fared.
        figure: As an experiment draws it.
    """

    chapter: str
    message: str
    note: str
    figure: Figure


def poster(title: str, lines: Sequence[str], panels: Sequence[Panel]) -> Figure:
    """The page, of size A2 in landscape; it can be printed on A4 as well.

    Args:
        title: Its first line.
        lines: What stands below it, a line each.
        panels: From left to right, then down; at least one.

    Raises:
        ValueError: If there are no panels.
    """
    if not panels:
        raise ValueError("panels=() must hold at least one figure")
    page = Figure(figsize=SIZE)
    page.text(_MARGIN, 0.965, title, fontsize=46, fontweight="bold", va="top")
    page.text(_MARGIN, 0.915, "\n".join(lines), fontsize=18, va="top", parse_math=False)
    n_rows = -(-len(panels) // COLUMNS)
    width, height = (1 - _MARGIN) / COLUMNS, (1 - _HEAD - _MARGIN) / n_rows
    for i, panel in enumerate(panels):
        row, column = divmod(i, COLUMNS)
        left, top = _MARGIN + column * width, 1 - _HEAD - row * height
        _panel(page, panel, left, top, width - _MARGIN, height - _MARGIN)
    return page


def _panel(
    page: Figure, panel: Panel, left: float, top: float, width: float, height: float
) -> None:
    page.text(left, top, panel.chapter, fontsize=15, color=GREY, va="top")
    message = "\n".join(wrapped(panel.message, width * SIZE[0], _HEADING))
    how: dict[str, Any] = {"va": "top", "parse_math": False}
    page.text(left, top - 0.017, message, fontsize=_HEADING, fontweight="bold", **how)
    page.text(left, top - height, panel.note, fontsize=12, color=GREY, va="bottom")
    ax = page.add_axes((left, top - height + 0.02, width, height - _TEXT - 0.02))
    ax.imshow(_pixels(panel.figure), interpolation="antialiased")
    ax.set_anchor("N")
    ax.axis("off")


def _pixels(figure: Figure) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    with Image.open(buffer) as picture:
        return np.asarray(picture.convert("RGB"))
