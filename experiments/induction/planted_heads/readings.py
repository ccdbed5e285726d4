"""Planted heads read: whether evaluators order heads by the strength that was planted."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from circuitax.figures.palette import DIVERGING, SEQUENTIAL
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.sample import Sample, mean_of

PANELS = (
    ("eigenvalues", "raised", "planted_copying", "OV eigenvalue score", "copying, share raised"),
    ("qk_trace", "prefix", "planted_matching", "trace of the QK circuit", "prefix matching"),
)


def at_its_own(data: xr.Dataset) -> Sample:
    """Share of heads that attend most at the offset that they ask for."""
    found = data.at_offset.argmax("offset") == np.arange(data.sizes["asked"])
    return mean_of(found.mean("asked").values, bounds=(0, 1))


def ranks(data: xr.Dataset, first: str, second: str) -> Sample:
    """Rank correlation of two scores over the heads of a model, mean over models.

    A score that is the same for all heads orders none of them: 0.
    """
    x, y = (data[name].values for name in (first, second))
    centred = (stats.rankdata(z, axis=1) - (z.shape[1] + 1) / 2 for z in (x, y))
    a, b = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12) for z in centred)
    return mean_of(np.sum(a * b, axis=1))


def scores(data: xr.Dataset) -> Figure:
    """Behaviour against weights, for copying and for matching."""
    figure, axes = new_figure(1, 2, height=2.6)
    for ax, (x, y, strength, below, beside) in zip(axes[0], PANELS, strict=True):
        low, colours = (-1, DIVERGING) if strength == "planted_copying" else (0, SEQUENTIAL)
        at = (data[name].values.ravel() for name in (x, y))
        how: dict[str, Any] = {"vmin": low, "vmax": 1, "cmap": colours, "linewidth": 0.3}
        dots = ax.scatter(*at, c=data[strength].values.ravel(), s=10, edgecolor="0.4", **how)
        figure.colorbar(dots, ax=ax, label="planted strength")
        n = data.sizes["member"]
        ax.set(xlabel=below, ylabel=beside, title=f"{data[x].size} heads of {n} models")
    letter_panels(axes[0])
    return figure


def offsets(data: xr.Dataset) -> Figure:
    """A grid of the offset asked for against the offset looked at, brighter with attention."""
    mean = data.at_offset.mean("member").values
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.8)
    ax = axes[0, 0]
    image = ax.imshow(mean, vmin=0, vmax=1, cmap=SEQUENTIAL, origin="lower")
    figure.colorbar(image, ax=ax, label="mean attention", shrink=0.85)
    ax.set(xlabel="tokens back", ylabel="offset that the head asks for")
    sample_note(figure, f"mean of {data.sizes['member']} models")
    return figure
