"""Planted heads read: whether evaluators order heads by the strength that was planted."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats

from circuitax.figures.marks import legend_above, mean_curve, zero_line
from circuitax.figures.style import (
    BLUE,
    COLUMN,
    DIVERGING,
    ORANGE,
    SEQUENTIAL,
    letter_panels,
    new_figure,
    sample_note,
)
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
    """Rank correlation of two scores over the heads of a model, mean over models."""
    return mean_of(_ranks(data, first, second))


def erasing_heads(data: xr.Dataset) -> dict[str, Sample]:
    """Rank correlation of copying scores with planted strength, over heads that erase."""
    cosine, raised = (
        _ranks(data, "planted_copying", name, below=0) for name in ("cosine", "raised")
    )
    return {
        "planted-erasing-seen": mean_of(cosine),
        "planted-erasing-unseen": mean_of(raised - cosine),
    }


def _ranks(data: xr.Dataset, first: str, second: str, below: float = np.inf) -> np.ndarray:
    """Spearman's correlation of two scores over a model's heads with the first below a bound."""
    x, y = data[first].values, data[second].values
    kept = x < below
    if kept.all():
        return _correlations(x, y)
    rows = zip(x, y, kept, strict=True)
    return np.concatenate([_correlations(a[None, some], b[None, some]) for a, b, some in rows])


def _correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row, which `stats.spearmanr` takes row by row, with p-values.

    A score that is the same for all heads orders none of them: 0.
    """
    centred = (stats.rankdata(z, axis=1) - (z.shape[1] + 1) / 2 for z in (x, y))
    a, b = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12) for z in centred)
    return np.sum(a * b, axis=1)


def scores(data: xr.Dataset) -> Figure:
    """Behaviour against weights, for copying and for matching."""
    figure, axes = new_figure(1, 2, height=2.6)
    for ax, (x, y, strength, below, beside) in zip(axes[0], PANELS, strict=True):
        signed = strength == "planted_copying"
        colours = {
            "vmin": -1 if signed else 0,
            "vmax": 1,
            "cmap": DIVERGING if signed else SEQUENTIAL,
        }
        values = (data[name].values.ravel() for name in (x, y))
        dots = ax.scatter(
            *values,
            c=data[strength].values.ravel(),
            s=10,
            edgecolor="0.4",
            linewidth=0.3,
            **colours,
        )
        figure.colorbar(dots, ax=ax, label="planted strength")
        n = data.sizes["member"]
        ax.set(xlabel=below, ylabel=beside, title=f"{data[x].size} heads of {n} models")
    letter_panels(axes[0])
    return figure


def erasing(data: xr.Dataset) -> Figure:
    """Both scores of copying over the strength that was planted."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    ax = axes[0, 0]
    order = np.argsort(data.planted_copying.values, axis=1)
    strength = np.sort(data.planted_copying.values, axis=1)[0]
    for name, label, colour, mark in (
        ("cosine", "cosine with attention", BLUE, "o"),
        ("raised", "share of a ReLU (paper)", ORANGE, "s"),
    ):
        rows = np.take_along_axis(data[name].values, order, axis=1).T
        mean_curve(ax, strength, rows, colour, label=label, marker=mark)
    zero_line(ax)
    ax.set(xlabel="planted strength of copying", ylabel="score of copying")
    legend_above(figure, ax, columns=2)
    sample_note(figure, f"mean and 95 % interval of {len(order)} models")
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
