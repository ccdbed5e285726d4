"""The figures of an experiment: its table says what they show, its readings draw them."""

import inspect
from types import ModuleType

import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.style import styled
from circuitax.records.table import FigureText, Table


@styled
def draw_all(
    table: Table, readings: ModuleType, data: xr.Dataset, *, of_sweep: bool = False
) -> dict[str, Figure]:
    """Pictures by name, of the figures whose variables the data have.

    Args:
        table: Declares the figures.
        readings: Module with a function of the data for each of them.
        data: Arrays of a record, with its notes as attributes.
        of_sweep: Whether the data are those of a collected sweep.
    """
    return {
        figure.name: getattr(readings, figure.draw or figure.name)(data)
        for figure in table.figures
        if figure.of_sweep == of_sweep and all(n in data or n in data.dims for n in figure.needs)
    }


def described(figure: FigureText, readings: ModuleType) -> str:
    """The picture for those who do not see it: the first paragraph of the docstring that draws."""
    text = inspect.getdoc(getattr(readings, figure.draw or figure.name)) or ""
    return " ".join(text.split("\n\n")[0].split())
