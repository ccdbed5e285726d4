"""The walk's path."""

from matplotlib.figure import Figure

from circuitax.figures.spec import FigureSpec
from circuitax.records.record import Record


def path(record: Record) -> Figure:
    """Its mean over members."""
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot(record.data["position"].mean("member").values)
    return figure


FIGURES = (FigureSpec("path", path, message="The walk goes on."),)
