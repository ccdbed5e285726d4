"""Figures of a table: which are drawn from what a record has, and how they are described."""

import types

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.picture import described, draw_all
from circuitax.records.table import FigureText, Table

TABLE = Table(
    title="T",
    message="M.",
    figures=(
        FigureText("dots", "Dots lie on a line."),
        FigureText("lines", "Lines cross.", draw="crossing", needs=("slope",)),
        FigureText("steps", "Steps fall.", draw="dots", needs=("step",)),
        FigureText("cells", "Cells differ.", draw="dots", of_sweep=True),
    ),
)


def module():
    found = types.ModuleType("readings")

    def dots(data: xr.Dataset) -> Figure:
        """Every unit as a dot,
        one above another.

        More is not said.
        """
        figure = Figure()
        figure.add_subplot().plot(data.x, ".")
        return figure

    found.dots = dots
    return found


def test_only_figures_whose_data_are_there_are_drawn():
    data = xr.Dataset({"x": ("step", np.arange(3.0))})
    assert list(draw_all(TABLE, module(), data)) == ["dots", "steps"]
    assert list(draw_all(TABLE, module(), data.rename(step="unit"))) == ["dots"]
    assert list(draw_all(TABLE, module(), data, of_sweep=True)) == ["cells"]


def test_the_picture_is_described_by_the_first_paragraph():
    assert described(TABLE.figures[0], module()) == "Every unit as a dot, one above another."
