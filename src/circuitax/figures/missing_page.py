"""The page of an experiment whose data or weights are not at hand."""

from matplotlib.figure import Figure

from circuitax.figures.style import new_figure


def missing_page(what: str) -> Figure:
    """A figure that says what is not at hand.

    Args:
        what: The package or the file, and how it is fetched.
    """
    figure, axes = new_figure(1, 1, height=1.2)
    axes[0, 0].text(0.5, 0.5, f"not at hand: {what}", ha="center")
    axes[0, 0].set_axis_off()
    return figure
