"""The common style of all figures: sizes, fonts, and panel letters."""

import functools
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import TextPath

from circuitax.figures import palette
from circuitax.names import nearest

COLUMN = 3.25  # inches: one column of a two-column page
PAGE = 6.75  # inches: the full text width

STYLE = Path(__file__).with_name("paper.mplstyle")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def styled(draw: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator of a function that draws, which applies the common style to what it makes.

    Texts, legends and colour bars take their size when they are made, not when they are saved.
    """

    @functools.wraps(draw)
    def inside(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with matplotlib.rc_context(fname=STYLE):
            return draw(*args, **kwargs)

    return inside


@contextmanager
def restyled(style: Path | None) -> Iterator[Callable[[Iterable[Figure]], None]]:
    """Context in a style of the user's; gives what puts its cycle in the place of the palette."""
    if style is None:
        yield lambda figures: None
        return
    own = matplotlib.rc_params_from_file(style, use_default_template=False)
    cycle = own["axes.prop_cycle"].by_key().get("color", []) if "axes.prop_cycle" in own else []
    with matplotlib.rc_context(own):
        yield functools.partial(_recolour, colours=dict(zip(palette.EVERY, cycle, strict=False)))


def _recolour(figures: Iterable[Figure], colours: Mapping[str, str]) -> None:
    old, new = (to_rgba_array(list(each))[:, :3] for each in (colours, colours.values()))
    for artist in (artist for figure in figures for artist in figure.findobj()):
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            get = getattr(artist, f"get_{part}", None)
            if get is None or getattr(artist, "get_array", lambda: None)() is not None:
                continue
            found = to_rgba_array(get())
            hit, which = (found[:, None, :3] == old).all(-1).nonzero()
            if hit.size:
                found[hit, :3] = new[which]
                getattr(artist, f"set_{part}")(found if len(found) > 1 else tuple(found[0]))


def rename(figures: Iterable[Figure], labels: Mapping[str, str], titles: Iterable[str]) -> None:
    """Write other texts in the place of those of figures, each of which must be there."""
    texts = [text for figure in figures for text in figure.findobj(Text)]
    known = {text.get_text() for text in texts} | set(titles)
    for old in labels:
        if old not in known:
            raise ValueError(f"labels: {old!r} stands in no figure{nearest(old, sorted(known))}")
    for text in texts:
        text.set_text(labels.get(text.get_text(), text.get_text()))


def new_figure(
    n_rows: int = 1,
    n_columns: int = 1,
    *,
    width: float = PAGE,
    height: float = 2.2,
    **subplots: Any,
) -> tuple[Figure, Any]:
    """A figure and its axes, always as a two-dimensional array; call it under ``styled``.

    Args:
        n_rows: Rows of panels, at least 1.
        n_columns: Columns of panels, at least 1.
        width: Inches; ``COLUMN`` or ``PAGE``.
        height: Inches.
        **subplots: Passed to ``Figure.subplots``, such as ``sharex`` or ``width_ratios``.
    """
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **subplots)


def letter_panels(axes: Iterable[Axes]) -> None:
    """Write a, b, c ... at the upper left of the given panels, in order."""
    for letter, ax in zip(string.ascii_lowercase, axes, strict=False):
        ax.annotate(
            letter,
            xy=(0, 1),
            xycoords="axes fraction",
            xytext=(-3, 5),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontweight="bold",
            fontsize=9,
        )


def sample_note(figure: Figure, words: str) -> None:
    """Write the sample size and the kind of intervals in small print below a figure's panels.

    Args:
        figure: One with a layout that makes room, made under ``styled``.
        words: Such as "mean and 95 % interval of 8 seeds".
    """
    how = {"borderpad": 0, "borderaxespad": 0.2}
    figure.legend([], [], loc="outside lower right", title=words, title_fontsize=6.5, **how)


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


@functools.lru_cache(maxsize=4096)  # jobs of a sweep have equal titles
def _inches(text: str, size: int) -> float:
    path = TextPath((0, 0), text, size=size, prop=FontProperties(weight="bold"))
    # Letters have points at their extremes, so that no curve need be followed, which takes most of
    # `get_extents`; the points that close a letter lie nowhere.
    x = path.vertices[path.codes != path.CLOSEPOLY, 0]
    return float(x.max() - x.min()) / 72
