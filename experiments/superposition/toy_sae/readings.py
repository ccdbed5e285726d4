"""Dictionary learning on known features: what is read from the record, and its figures; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import (
    interval_bars,
    reference_line,
    seed_dots,
    tilted_labels,
    zero_line,
)
from circuitax.figures.palette import BLUE, COLOURS, ORANGE
from circuitax.figures.style import COLUMN, letter_panels, new_figure
from circuitax.records.estimate import mean_of_finite
from circuitax.records.sample import Absent, Sample, crossfit_choice, mean_of_those_finite

FINDS = 0.99  # mean max cosine of a seed that finds every direction
# Features that are independent, and that occur together, of a narrow and of a wide dictionary.
WIDTHS = (("narrow independent", "narrow together"), ("independent", "together"))
LABELS = {"relu": "ReLU", "topk": "TopK", "jumprelu": "JumpReLU", "matryoshka": "Matryoshka"}
NAMES = {
    "small": "small model",
    "large": "large model",
    "exclusive": "exclusive",
    "independent": "independent",
    "together": "together",
}
SCORES = (
    ("cosine", "mean max cosine", "features found"),
    ("error", "error / squared norm", "regret (least: 0)"),
    ("norm_ratio", "norm ratio", "shrinkage"),
    ("dead", "dead latents (share)", "latents lost"),
)


def found_by(data: xr.Dataset, target: str, kind: str) -> Sample:
    """Mean max cosine of a method at its best strength."""
    return mean_of_those_finite(at_best_strength(data).cosine.sel(target=target, kind=kind).values)


def shrinkage(data: xr.Dataset, kind: str) -> Sample:
    """Norm ratio at the largest strength on the small target, of seeds that find every direction.

    That of a seed that merged or lost directions falls without any penalty.
    """
    cell = data.isel(strength=-1).sel(target="small", kind=kind)
    kept = cell.norm_ratio.where(cell.cosine >= FINDS).values
    if not np.isfinite(kept).any():
        raise Absent("no autoencoder found the dictionary")
    return mean_of_those_finite(kept)


def merging(data: xr.Dataset) -> dict[str, Sample]:
    """Hedging that a lack of width adds, of ReLU and of the method whose mean is least.

    Of a dictionary narrower than the truth, on features that occur together less that on
    independent ones; less the same of one as wide.
    """
    hedged = at_best_strength(data).hedging
    narrow, wide = (hedged.sel(target=b) - hedged.sel(target=a) for a, b in WIDTHS)
    found = {
        str(kind): mean_of_those_finite((narrow - wide).sel(kind=kind).values)
        for kind in data.kind.values
    }
    least = min(found.values(), key=lambda sample: sample.value)
    return {"sae-hedging": found["relu"], "sae-hedging-all": least}


def at_best_strength(data: xr.Dataset) -> xr.Dataset:
    """Every method, target and seed at the strength with the highest mean cosine of other seeds."""
    return data.isel(strength=crossfit_choice(data.cosine, "strength"))


def ranking(data: xr.Dataset) -> Figure:
    """Four scores of every method on every target with a dictionary as wide as the truth."""
    best = at_best_strength(data)
    figure, axes = new_figure(2, 2, height=4.2, sharex=True)
    for ax, (score, label, title) in zip(axes.flat, SCORES, strict=True):
        for i, kind in enumerate(LABELS):
            rows = best[score].sel(kind=kind, target=list(NAMES)).values
            at = np.arange(len(NAMES)) + 0.18 * (i - 1.5)
            for place, row in zip(at, rows, strict=True):
                seed_dots(ax, place, row, COLOURS[i], half_width=0.05, size=4, opacity=0.35)
            found = [mean_of_finite(row) for row in rows]
            interval_bars(ax, at, found, colour=COLOURS[i], fmt="o", markersize=3)
        tilted_labels(ax, list(NAMES.values()))
        ax.set(ylabel=label, title=title)
        if score in ("cosine", "norm_ratio"):
            reference_line(ax, y=1)
    axes[0, 1].set_yscale("log")
    marks = [
        Line2D([], [], marker="o", linestyle="", markersize=3, color=COLOURS[i], label=label)
        for i, label in enumerate(LABELS.values())
    ]
    n = data.sizes["seed"]
    title = f"dots: {n} seeds; bars: mean, t interval 95 %; strength of the highest cosine"
    figure.legend(handles=marks, loc="outside lower center", ncols=4, title=title)
    letter_panels(axes.flat)
    return figure


def hedging(data: xr.Dataset) -> Figure:
    """Merging of other features by a dictionary half as wide as the truth."""
    best = at_best_strength(data)
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.7)
    ax = axes[0, 0]
    arms = (("narrow independent", BLUE, -0.15), ("narrow together", ORANGE, 0.15))
    for target, colour, shift in arms:
        rows = best.hedging.sel(target=target, kind=list(LABELS)).values
        at = np.arange(len(LABELS)) + shift
        for place, row in zip(at, rows, strict=True):
            seed_dots(ax, place, row, colour, half_width=0.08, size=5)
        label = "independent features" if colour == BLUE else "features that occur together"
        found = [mean_of_finite(row) for row in rows]
        interval_bars(ax, at, found, colour=colour, fmt="o", label=label)
    ax.set_xticks(range(len(LABELS)), list(LABELS.values()))
    ax.set_ylabel("cosine with another feature")
    ax.set_title("narrow dictionaries merge what occurs together", fontsize=8)
    zero_line(ax)
    n = data.sizes["seed"]
    figure.legend(loc="outside lower center", ncols=1, title=f"{n} seeds, t interval 95 %")
    return figure
