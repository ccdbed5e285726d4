"""Theorem 27 and Corollary 28 of S0: which maps break which bounds, and the figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import Estimate, proportion_estimate, share_estimate
from circuitax.records.sample import Sample, exactly, share_of

# Each example in words, and its bound: both of E8 are given over theirs already.
EXAMPLES = {
    "E8-inner": ("inner product,\nproof's map", 1.0),
    "E8-rescaled": ("the same,\nrescaled", 1.0),
    "E10-without-zero": ("cosine, no\npoint at 0", 4 * 0.1 / 0.9),
    "E10-unequal-norms": ("cosine,\nnorms 15 : 1", 4 * 0.1 / 0.9),
}


def failing(data: xr.Dataset, kind: str, bound: str) -> Estimate:
    """Share of the maps of a kind that break a bound for some pair, with its exact interval."""
    return share_estimate(data.fails.sel(kind=kind, bound=bound), method="exact")


def above_stated(data: xr.Dataset) -> Sample:
    """Share of the proof's maps under which one pair exceeds the printed ``1 + ε``."""
    return share_of(data.ratio.sel(kind="proof") > 1 + data.attrs["pair_epsilon"])


def below_proved(data: xr.Dataset) -> Sample:
    """Share of sign maps under which one pair falls below the proof's bound 1."""
    return share_of(data.ratio.sel(kind="signs") < 1)


def covered(data: xr.Dataset) -> Estimate:
    """Share of one pair's failures at ``ε / 2`` that the printed inequality covers (E9)."""
    signs = data.ratio.sel(kind="signs").values
    missed = signs[abs(signs - 1) > data.attrs["pair_epsilon"] / 2]
    return proportion_estimate((missed > 1).sum(), max(missed.size, 1))


def beyond(data: xr.Dataset, of: str) -> Sample:
    """Number of pairs that break the corollary's bound under its corrected hypothesis."""
    return exactly(data[f"{of}_beyond"].sum().item(), data.sizes["map"])


def example(data: xr.Dataset, name: str) -> Sample:
    """How far an explicit map moves an inner product or a cosine."""
    return exactly(data.moved.sel(example=name))


def maps(data: xr.Dataset) -> Figure:
    """One pair under many maps of both kinds, with both intervals and the exact law."""
    eps = data.attrs["pair_epsilon"]
    grid, law = data.ratio_grid.values, data.law.values
    figure, axes = new_figure(1, 2, height=2.3, sharey=True)
    intervals = {
        r"stated: $[1-\varepsilon,\ 1+\varepsilon]$": (1 - eps, 1 + eps),
        r"proved: $[1,\ (1+\varepsilon)^2]$": (1.0, (1 + eps) ** 2),
    }
    bins = np.linspace(grid[0], grid[-1], 97)
    for ax, (title, (low, high)) in zip(axes[0], intervals.items(), strict=True):
        ax.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0)
        for kind, colour, label, gain in (
            ("signs", BLUE, r"$\pm 1/\sqrt{m}$", 1.0),
            ("proof", ORANGE, r"$\pm\sqrt{(1+\varepsilon)/m}$ (proof)", 1 + eps),
        ):
            ratio = data.ratio.sel(kind=kind).values
            text = f"{label}: {_percent(((ratio < low) | (ratio > high)).mean())} outside"
            filled: dict[str, Any] = {"density": True, "histtype": "stepfilled", "alpha": 0.55}
            ax.hist(ratio, bins, color=colour, label=text, **filled)
            ax.plot(gain * grid, law / gain, color=BLACK, linewidth=0.8)
        ax.set(title=title, xlim=(0.55, 1.95), xlabel=r"$\|f(x)-f(y)\|^2\,/\,\|x-y\|^2$")
        ax.set_ylim(0, 1.65 * law.max())
        ax.legend(loc="upper right")
    axes[0, 0].set_ylabel("density over maps")
    letter_panels(axes[0])
    return figure


def corollary(data: xr.Dataset) -> Figure:
    """Worst error over the corollary's bound: as corrected for every map, as printed by example."""
    figure, axes = new_figure(1, 2, height=2.5, sharey=True, width_ratios=(1.2, 1))
    corrected, printed = axes[0]
    for ax in axes[0]:
        reference_line(ax, y=1, style="dashed")
    for name, colour, marker, label in (
        ("inner_share", BLUE, "o", r"inner product, bound $3\varepsilon$"),
        ("cosine_share", GREEN, "^", r"cosine, bound $4\varepsilon/(1-\varepsilon)$"),
    ):
        dots = {"color": colour, "markersize": 2.5, "label": label}
        corrected.plot(data.kept_epsilon, data[name], marker, **dots)
    corrected.set(ylabel="worst error / bound", xlabel=r"$\varepsilon$ kept on unit points and 0")
    corrected.set(title=f"corrected hypothesis, {data.sizes['map']} maps", ylim=(0, 2.6))
    corrected.legend(loc="upper left")
    for x, (name, (words, bound)) in enumerate(EXAMPLES.items()):
        error = float(data.moved.sel(example=name))
        beyond = error > bound
        printed.bar([x], [error / bound], color=ORANGE if beyond else GREY, width=0.6)
        text = f"{error:.3f}" if bound == 1 else f"{error:.3f}\nof {bound:.3f}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        printed.text(x, error / bound + 0.04, text, ha="center", fontsize=7, bbox=box)
        printed.text(x, -0.1, words, ha="center", va="top", fontsize=6)
    printed.set(title="as printed: examples", xticks=[])
    letter_panels(axes[0])
    return figure


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
