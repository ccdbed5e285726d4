"""Bold text wrapped to a width."""

from functools import lru_cache

from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath


def wrapped(message: str, width: float, size: int) -> list[str]:
    """A bold text wrapped to a width; a single word may be longer.

    Args:
        message: Words.
        width: Inches of a line, positive.
        size: Points of the letters, positive.
    """
    lines: list[str] = []
    for word in message.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _inches(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@lru_cache(maxsize=4096)  # jobs of a sweep have equal titles
def _inches(text: str, size: int) -> float:
    path = TextPath((0, 0), text, size=size, prop=FontProperties(weight="bold"))
    # Letters have points at their extremes, so that no curve need be followed, which takes most of
    # `get_extents`; the points that close a letter lie nowhere.
    x = path.vertices[path.codes != Path.CLOSEPOLY, 0]
    return float(x.max() - x.min()) / 72
