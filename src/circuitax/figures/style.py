"""The common style of all figures: sizes, fonts, and panel letters."""

import functools
import string
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK as BLACK
from circuitax.figures.palette import BLUE as BLUE
from circuitax.figures.palette import DIVERGING as DIVERGING
from circuitax.figures.palette import GREEN as GREEN
from circuitax.figures.palette import GREY as GREY
from circuitax.figures.palette import ORANGE as ORANGE
from circuitax.figures.palette import PINK as PINK
from circuitax.figures.palette import SEQUENTIAL as SEQUENTIAL
from circuitax.figures.palette import SKY as SKY
from circuitax.figures.palette import YELLOW as YELLOW
from circuitax.figures.wrapping import wrapped

COLUMN = 3.25  # inches: one column of a two-column page
PAGE = 6.75  # inches: the full text width

HEADLINE = "headline"  # mark of the line that `headline` writes
_TITLE = 8  # points
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


def headline(figure: Figure, message: str) -> None:
    """Write the message of a figure above it, at the left, in lines that fit; under ``styled``.

    For messages that depend on the record. A figure without one gets the message that is declared
    for it (`figures.spec`), when it is saved.
    """
    lines = wrapped(message, 0.98 * figure.get_figwidth(), _TITLE)
    line = figure.suptitle(
        "\n".join(lines), x=0.01, horizontalalignment="left", fontsize=_TITLE, fontweight="bold"
    )
    line.set_gid(HEADLINE)


def sample_note(figure: Figure, words: str) -> None:
    """Write the sample size and the kind of intervals in small print below a figure's panels.

    Args:
        figure: One with a layout that makes room, made under ``styled``.
        words: Such as "mean and 95 % interval of 8 seeds".
    """
    how = {"borderpad": 0, "borderaxespad": 0.2}
    figure.legend([], [], loc="outside lower right", title=words, title_fontsize=6.5, **how)
