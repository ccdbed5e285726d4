"""The message of a figure as its title: a strip above it, outside its panels."""

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from circuitax.figures.style import HEADLINE
from circuitax.figures.wrapping import wrapped

Titled = tuple[Figure, Bbox]  # a figure, and what to save of its page, in inches

_SIZE = 8  # points, the size of the other titles
_LINE = 1.25 * _SIZE / 72  # inches from line to line
_MARGIN = 0.04  # inches, at the sides and below


def add_title(figure: Figure, message: str) -> Bbox:
    """Write a message above a figure; a figure with its own headline keeps that alone.

    Args:
        figure: Laid out already or not; its panels stay where they are.
        message: One sentence, of any length; empty for none.

    Returns:
        What to save, in inches: the figure with the strip.
    """
    width, height = figure.get_size_inches()
    own = any(text.get_gid() == HEADLINE for text in figure.texts)
    lines = [] if own else wrapped(message, width - 2 * _MARGIN, _SIZE)
    if not lines:
        return Bbox.from_bounds(0, 0, width, height)
    _keep_layout(figure)
    figure.text(
        _MARGIN / width,
        1 + _MARGIN / height,
        "\n".join(lines),
        horizontalalignment="left",
        verticalalignment="bottom",
        fontsize=_SIZE,
        fontweight="bold",
        linespacing=1.0,
        in_layout=False,
        parse_math=False,
    )
    return Bbox.from_bounds(0, 0, width, height + len(lines) * _LINE + 2 * _MARGIN)


def _keep_layout(figure: Figure) -> None:
    """Fix the layout of the figure: its saved version has a larger box."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        if legend.get_bbox_to_anchor() is figure.bbox:
            legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
