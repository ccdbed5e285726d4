"""Directions of real models: what is read from the record, and its figure."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from circuitax.figures.marks import reference_line, seed_dots, tilted_labels
from circuitax.figures.palette import COLOURS, GREY
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import NotRun, Sample, exactly, mean_of

NAMES = {"ours": "our text model", "smollm2": "SmolLM2-135M"}
KINDS = {"tokens": "tokens", "read": "neurons read", "write": "neurons write"}


def over_random(data: xr.Dataset, model: str, kind: str) -> Sample:
    """Mean square overlap, centred, over that of random directions: mean of layers, by draw."""
    sets = _sets(data, model, kind, centred=True)
    return mean_of((sets.mean_square / sets.null_mean_square).mean("set"))


def common_direction(data: xr.Dataset) -> dict[str, Sample]:
    """What the tokens of SmolLM2 have in common, and what it costs."""
    tokens, centred = (_sets(data, "smollm2", "tokens", c).isel(set=0) for c in (False, True))
    return {
        "smollm2-common": exactly(tokens["mean"].item()),
        "smollm2-centring": exactly((tokens.mean_square / centred.mean_square).item()),
        "smollm2-tokens-dims": mean_of(tokens.dimensionality_sum / tokens.null_dimensionality_sum),
    }


def _sets(data: xr.Dataset, model: str, kind: str, centred: bool) -> xr.Dataset:
    """Of a run with the weights of the model."""
    if data.attrs["weights"] != "real":
        raise NotRun(f"weights={data.attrs['weights']}: a small random model")
    if model not in data.attrs["models"]:
        raise NotRun(data.attrs["missing"] or f"no weights of {NAMES[model]}")
    return _of(data, model, kind).sel(centred=centred)


def _of(data: xr.Dataset, model: str, kind: str) -> xr.Dataset:
    chosen = (data.model == model).values & (data.kind == kind).values
    return data.isel(set=np.flatnonzero(chosen))


def interference(data: xr.Dataset) -> Figure:
    """Interference and dimensions in use of each kind of directions, over random; a row a model."""
    names = [name for name in NAMES if name in data.attrs["models"]]
    figure, axes = new_figure(len(names), 2, height=0.9 + 2 * len(names))
    for row, name in zip(axes, names, strict=True):
        for ax, number in zip(row, ("mean_square", "dimensionality_sum"), strict=True):
            _numbers(ax, data, name, number)
        row[0].set_ylabel(f"{NAMES[name]}\nmean square overlap / random")
        row[1].set_ylabel("Σ $D_i$ / random")
    for ax, title in zip(axes[0], ("interference", "dimensions in use"), strict=True):
        ax.set_title(title)
    letter_panels(axes.ravel())
    sample_note(figure, "small dots: layers; white: mean taken off")
    return figure


def _numbers(ax: Axes, data: xr.Dataset, name: str, number: str) -> None:
    """One number of every kind of directions over that of random ones, as they are and centred."""
    for place, (kind, colour) in enumerate(zip(KINDS, COLOURS, strict=False)):
        for centred, shift in ((False, -0.18), (True, 0.18)):
            values, at = _ratio(data, name, kind, number, centred), place + shift
            mark: dict[str, Any] = {"markerfacecolor": "white"} if centred else {}
            seed_dots(ax, at, values, colour, half_width=0.1, size=5, opacity=0.4)
            ax.plot(at, values.mean(), "o", color=colour, markersize=4, **mark)
    tilted_labels(ax, list(KINDS.values()))
    reference_line(ax, y=1, style="solid", colour=GREY)
    ax.set_xlim(-0.5, len(KINDS) - 0.5)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 4, 7)))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter("")


def _ratio(data: xr.Dataset, name: str, kind: str, number: str, centred: bool) -> np.ndarray:
    """A number over that of random directions, for each layer."""
    sets = _of(data, name, kind)
    return np.asarray(sets[number].sel(centred=centred) / sets[f"null_{number}"].mean("draw"))
