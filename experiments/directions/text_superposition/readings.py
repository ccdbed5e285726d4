"""Directions of real models: what is read from the record, and its figure."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from circuitax.figures.marks import (
    interval_bars,
    reference_line,
    seed_dots,
    tilted_labels,
)
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.style import PAGE, letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.sample import NotRun, Sample, exactly, mean_of

# Pairs are in the tail above this multiple of 1/√d.
TAIL = 3.0
# How arrays of each model's features begin.
STEMS = {"ours": "feature_", "smollm2": "smollm2_feature_"}
NAMES = {"ours": "our text model", "smollm2": "SmolLM2-135M"}
KINDS = {
    "tokens": (BLUE, "tokens"),
    "read": (ORANGE, "neurons read"),
    "write": (GREEN, "neurons write"),
    "features": (PINK, "features"),
}


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


def features_over_random(data: xr.Dataset, model: str) -> Sample:
    """Mean square overlap of each dictionary, centred, over that of a random one as it is."""
    each = _dictionaries(data, model)
    return mean_of(each.mean_square.sel(centred=True) / each.null_mean_square.sel(centred=False))


def feature_dimensions(data: xr.Dataset, model: str) -> Sample:
    """Sum of D_i of each dictionary over that of a random one."""
    each = _dictionaries(data, model).sel(centred=False)
    return mean_of(each.dimensionality_sum / each.null_dimensionality_sum)


def least_over_welch(data: xr.Dataset, features_of: str = "") -> Sample:
    """Least mean square overlap over the square of Welch's bound, of weights or of features."""
    sets = _dictionaries(data, features_of) if features_of else _real(data)
    n = sets.sizes["seed" if features_of else "set"]
    return exactly((sets.mean_square / sets.welch**2).min(), n)


def most_of_dimensions(data: xr.Dataset, of_features: bool = False) -> Sample:
    """Largest sum of D_i over the number of dimensions, of weights or of our model's features."""
    if not of_features:
        return exactly((_real(data).dimensionality_sum / data.dim).max(), data.sizes["set"])
    each = _dictionaries(data, "ours")
    dim = _sets(data, "ours", "tokens", centred=False).dim.item()
    return exactly((each.dimensionality_sum / dim).max(), each.sizes["seed"])


def random_directions(data: xr.Dataset) -> dict[str, Sample]:
    """Random directions of the shape of SmolLM2's embedding, over what their law says."""
    tokens = _sets(data, "smollm2", "tokens", centred=False).isel(set=0)
    law = data.law.sel(group="smollm2 tokens", multiple=TAIL).item()
    return {
        "random-tail": mean_of(tokens.null_tail / law),
        "random-mean-square": mean_of(tokens.null_mean_square * tokens.dim),
    }


def _real(data: xr.Dataset, model: str = "") -> xr.Dataset:
    if data.attrs["weights"] != "real":
        raise NotRun(f"weights={data.attrs['weights']}: a small random model")
    if model and model not in data.attrs["models"]:
        raise NotRun(data.attrs["missing"] or f"no weights of {NAMES[model]}")
    return data


def _sets(data: xr.Dataset, model: str, kind: str, centred: bool) -> xr.Dataset:
    return _of(_real(data, model), model, kind).sel(centred=centred)


def _of(data: xr.Dataset, model: str, kind: str) -> xr.Dataset:
    chosen = (data.model == model).values & (data.kind == kind).values
    return data.isel(set=np.flatnonzero(chosen))


def _dictionaries(data: xr.Dataset, model: str) -> xr.Dataset:
    return _trained(_real(data, model), model)


def _trained(data: xr.Dataset, model: str) -> xr.Dataset:
    """Arrays of the dictionaries of a model, without the ones that diverged."""
    stem = STEMS[model]
    names = [str(name) for name in data.variables if str(name).startswith(stem)]
    each = data[names].rename({name: name.removeprefix(stem) for name in names})
    return each.isel(seed=np.flatnonzero(np.isfinite(each.error.values)))


def features(data: xr.Dataset) -> Figure:
    """Interference and dimensions in use of each kind of directions, over random; a row a model."""
    names = [name for name in NAMES if name in data.attrs["models"]]
    figure, axes = new_figure(len(names), 2, width=PAGE, height=0.9 + 2 * len(names))
    for row, name in zip(axes, names, strict=True):
        for ax, number in zip(row, ("mean_square", "dimensionality_sum"), strict=True):
            _numbers(ax, data, name, number)
        row[0].set_ylabel(f"{NAMES[name]}\nmean square overlap / random")
        row[1].set_ylabel("Σ $D_i$ / random")
    for ax, title in zip(axes[0], ("interference", "dimensions in use"), strict=True):
        ax.set_title(title)
    letter_panels(axes.ravel())
    seeds = data.sizes["seed"]
    sample_note(figure, f"small dots: {seeds} autoencoders, or layers; white: mean taken off")
    return figure


def _numbers(ax: Axes, data: xr.Dataset, name: str, number: str) -> None:
    """One number of every kind of directions over that of random ones, as they are and centred."""
    for place, (kind, (colour, _)) in enumerate(KINDS.items()):
        for centred, shift in ((False, -0.18), (True, 0.18)):
            values, at = _ratio(data, name, kind, number, centred), place + shift
            mark: dict[str, Any] = {"markerfacecolor": "white"} if centred else {}
            seed_dots(ax, at, values, colour, half_width=0.1, size=5, opacity=0.4)
            if kind == "features":
                found = [mean_estimate(values)]
                interval_bars(ax, [at], found, colour=colour, fmt="o", markersize=4, **mark)
            else:
                ax.plot(at, values.mean(), "o", color=colour, markersize=4, **mark)
    tilted_labels(ax, [label for _, label in KINDS.values()])
    reference_line(ax, y=1, style="solid", colour=GREY)
    ax.set_xlim(-0.5, len(KINDS) - 0.5)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_formatter("")


def _ratio(data: xr.Dataset, name: str, kind: str, number: str, centred: bool) -> np.ndarray:
    """A number over that of random directions: one for each autoencoder, or for each layer."""
    if kind == "features":
        each = _trained(data, name)
        return np.asarray(each[number].sel(centred=centred) / each[f"null_{number}"][:, 0])
    sets = _of(data, name, kind)
    return np.asarray(sets[number].sel(centred=centred) / sets[f"null_{number}"].mean("draw"))
