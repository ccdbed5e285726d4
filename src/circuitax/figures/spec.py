"""The figures of an experiment: its table says what they show, its readings draw them."""

import inspect
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.style import restyled, styled
from circuitax.records.sample import Absent, NotRun
from circuitax.records.table import FigureText, Table


@styled
def draw_all(
    table: Table,
    readings: ModuleType,
    data: xr.Dataset,
    *,
    of_sweep: bool = False,
    style: Path | None = None,
) -> dict[str, Figure]:
    """Pictures by name, of the figures whose variables the data have.

    One that says that something is `Absent` or `NotRun` is left out.

    Args:
        table: Declares the figures.
        readings: Module with a function of the data for each of them.
        data: Arrays of a record, with its notes as attributes.
        of_sweep: Whether the data are those of a collected sweep.
        style: Style of Matplotlib on top of the common one, whose cycle recolours the palette.
    """
    drawn = {}
    with restyled(style) as recolour:
        for figure in table.figures:
            there = all(name in data or name in data.dims for name in figure.needs)
            if figure.of_sweep == of_sweep and there:
                with suppress(Absent, NotRun):
                    drawn[figure.name] = getattr(readings, figure.draw or figure.name)(data)
        recolour(drawn.values())
    return drawn


def described(figure: FigureText, readings: ModuleType) -> str:
    """The picture for those who do not see it: the first paragraph of the docstring that draws."""
    text = inspect.getdoc(getattr(readings, figure.draw or figure.name)) or ""
    return " ".join(text.split("\n\n")[0].split())
