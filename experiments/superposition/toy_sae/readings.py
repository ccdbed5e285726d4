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
from circuitax.figures.style import (
    BLUE,
    COLOURS,
    COLUMN,
    ORANGE,
    PAGE,
    headline,
    letter_panels,
    new_figure,
)
from circuitax.records.estimate import mean_of_finite
from circuitax.records.sample import (
    Absent,
    Sample,
    crossfit_best,
    crossfit_choice,
    mean_of_those_finite,
)

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


def best_method(data: xr.Dataset, target: str) -> Sample:
    """Mean max cosine of each seed by the method and strength with the highest mean of others."""
    cells = data.cosine.sel(target=target).stack(cell=("kind", "strength"))
    return mean_of_those_finite(crossfit_best(cells, "cell").values)


def worst_method(data: xr.Dataset, target: str) -> Sample:
    """Mean max cosine of the method whose mean is least, each at its best strength."""
    return _least(at_best_strength(data).cosine.sel(target=target))


def shrinkage(data: xr.Dataset, kind: str) -> Sample:
    """Norm ratio at the largest strength on the small target, of seeds that find every direction.

    That of a seed that merged or lost directions falls without any penalty.
    """
    cell = data.isel(strength=-1).sel(target="small", kind=kind)
    kept = cell.norm_ratio.where(cell.cosine >= FINDS).values
    if not np.isfinite(kept).any():
        raise Absent("no autoencoder found the dictionary")
    return mean_of_those_finite(kept)


def regret_of_relu(data: xr.Dataset) -> Sample:
    """Error of ReLU over that of JumpReLU on the large target, each at its best strength."""
    error = at_best_strength(data).error.sel(target="large")
    return mean_of_those_finite((error.sel(kind="relu") / error.sel(kind="jumprelu")).values)


def merging(data: xr.Dataset) -> dict[str, Sample]:
    """Hedging that a lack of width adds, of ReLU and of the method that has least."""
    merged = _merged(at_best_strength(data))
    relu = mean_of_those_finite(merged.sel(kind="relu").values)
    return {"sae-hedging": relu, "sae-hedging-all": _least(merged)}


def at_best_strength(data: xr.Dataset) -> xr.Dataset:
    """Every method, target and seed at the strength with the highest mean cosine of other seeds."""
    return data.isel(strength=crossfit_choice(data.cosine, "strength"))


def _merged(best: xr.Dataset) -> xr.DataArray:
    """Hedging that a lack of width adds, on features that occur together.

    Of a dictionary narrower than the truth, on features that occur together less that on
    independent ones; less the same of one as wide.
    """
    narrow, wide = (best.hedging.sel(target=b) - best.hedging.sel(target=a) for a, b in WIDTHS)
    return narrow - wide


def _least(by_method: xr.DataArray) -> Sample:
    """The mean over seeds of the method whose mean is least."""
    rows = [by_method.isel(kind=i).values for i in range(by_method.sizes["kind"])]
    means = [mean_of_those_finite(row) for row in rows]
    return min(means, key=lambda sample: sample.value)


def ranking(data: xr.Dataset) -> Figure:
    """Four scores of every method on every target with a dictionary as wide as the truth."""
    best = at_best_strength(data)
    figure, axes = new_figure(2, 2, width=PAGE, height=4.2, sharex=True)
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
    means = best.cosine.sel(kind=list(LABELS), target=list(NAMES)).mean("seed")
    first = [LABELS[str(kind)] for kind in means.idxmax("kind").values]
    wins = sorted(((first.count(kind), kind) for kind in set(first)), reverse=True)
    others = "".join(f", {kind} on {n}" for n, kind in wins[1:])
    message = f"{wins[0][1]} finds features best on {wins[0][0]} of {len(NAMES)} targets"
    headline(figure, f"{message}{others}, by the mean of their cosines")
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
