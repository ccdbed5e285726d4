"""What is read of a walk that was recorded."""

import xarray as xr
from matplotlib.figure import Figure

from circuitax.records.sample import NotRun, Sample, mean_of


def spread(data: xr.Dataset) -> Sample:
    """Mean square of the last position."""
    if data.attrs["members"] <= 2:
        raise NotRun("too few members")
    return mean_of(data.end.values.ravel() ** 2)


def path(data: xr.Dataset) -> Figure:
    """Its mean over members."""
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot(data.position.mean("member").values)
    return figure
