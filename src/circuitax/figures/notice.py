"""The figure of a run without measurements: its missing requirements, in words."""

from matplotlib.figure import Figure

from circuitax.figures.palette import GREY
from circuitax.figures.style import new_figure


def notice(text: str) -> Figure:
    """A figure that holds one message; call it under ``styled``.

    Args:
        text: What is missing and how to get it, in lines of at most some 90 letters.
    """
    figure, axes = new_figure(height=1.3)
    axes[0, 0].set_axis_off()
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure
