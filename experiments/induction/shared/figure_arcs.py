"""Attention as arcs over a text: [A][B] … [A] → [B]."""

import string
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from circuitax.figures.style import BLACK, BLUE, GREY, ORANGE

LETTERS = (
    string.ascii_uppercase + string.ascii_lowercase + string.digits + "αβγδεζηθικλμνξπρστυφχψω"
)
_LEAST = 0.05  # attention below this has no arc


def lettered(text: np.ndarray, first: int) -> list[str]:
    """One letter for each token, ``A`` and ``B`` for those at ``first`` and behind it."""
    order = list(dict.fromkeys([*text[first:].tolist(), *text.tolist()]))
    return [LETTERS[order.index(token)] for token in text.tolist()]


def clearest(previous: np.ndarray, induction: np.ndarray, repeat: int) -> int:
    """The destination whose two steps are clearest: B looked at A, and A now looks at B.

    Of attention ``[dest, src]``; ``repeat`` are the tokens from one copy to the next.
    """
    dest = np.arange(repeat, len(induction) - 1)
    followed = dest - repeat + 1
    return int(dest[np.argmax(induction[dest, followed] * previous[followed, followed - 1])])


def arcs(
    ax: Axes, letters: list[str], previous: np.ndarray, induction: np.ndarray, at: int
) -> None:
    """Attention of an induction head from one position, above the text; of the other, below it."""
    earlier = next(place for place in range(at) if letters[place] == letters[at])
    named = {earlier, earlier + 1, at, at + 1}
    for place, letter in enumerate(letters):
        how: dict[str, Any] = (
            {"fontweight": "bold", "color": BLACK} if place in named else {"color": GREY}
        )
        ax.text(place, 0, letter, ha="center", va="center", fontsize=6, family="monospace", **how)
    for place in (earlier, earlier + 1, at):
        ax.add_patch(_box(place))
    ax.add_patch(_box(at + 1, linestyle=":"))
    for source in range(at + 1):
        _arc(ax, at, source, float(induction[at, source]), ORANGE, 1)
    for source in range(earlier + 2):
        _arc(ax, earlier + 1, source, float(previous[earlier + 1, source]), BLUE, -1)
    words: dict[str, Any] = {"fontsize": 7, "va": "center"}
    above = 0.5 + 0.5 * _height(at - earlier - 1)
    ax.text(at, above, f"  … [{letters[at]}] → [{letters[at + 1]}]", color=ORANGE, **words)
    ax.text(
        earlier + 2,
        -1.35,
        f"[{letters[earlier + 1]}] has looked at [{letters[earlier]}]",
        color=BLUE,
        **words,
    )
    ax.set(xlim=(-1, len(letters)), ylim=(-1.9, 0.7 + _height(len(letters))))
    ax.axis("off")


def _arc(ax: Axes, dest: int, src: int, attention: float, colour: str, side: int) -> None:
    if attention < _LEAST:
        return
    top = side * (0.6 + 2 * _height(abs(dest - src)))
    path = Path(
        [(dest, 0.6 * side), (dest, top), (src, top), (src, 0.6 * side)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    line = {"linewidth": 2.5 * float(attention), "edgecolor": colour, "facecolor": "none"}
    ax.add_patch(PathPatch(path, **line))


def _height(distance: int) -> float:
    return 0.6 + 0.04 * distance


def _box(place: int, **line: Any) -> FancyBboxPatch:
    box: dict[str, Any] = {"boxstyle": "square,pad=0", "facecolor": "none", "linewidth": 0.6}
    return FancyBboxPatch((place - 0.48, -0.45), 0.96, 0.9, edgecolor=BLACK, **box, **line)
