"""Proofs of the phase diagram of two features, and of pentagon and digons."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE, PINK, SKY
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, headline, letter_panels, new_figure
from circuitax.records.record import Record
from circuitax.superposition.polytopes import ignoring_limit
from experiments.superposition.phase_proof.measures import TRIPLE_OF_CLOSED_FORMS, proven_phases

COLOURS = {"ignored": "white", "dedicated": BLUE, "superposed": ORANGE, "": "#D9D9D9"}
LEAST_BAR = 0.03  # shorter ranges of a norm are drawn as a square
CELLS: dict[str, Any] = {"shading": "nearest", "rasterized": True}


def _nothing(how: str) -> Figure:
    """The figure of a run without balls."""
    figure, axes = new_figure(height=1.3)
    axes[0, 0].set_axis_off()
    text = f"python-flint is not installed, so that nothing was proven.\n{how}"
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def proof(record: Record) -> Figure:
    """The proven diagram, and the last feature's norm at the boundary."""
    if record.notes["missing"]:
        return _nothing(record.notes["missing"])
    data = record.data
    figure, axes = new_figure(1, 2, height=3.3, width_ratios=[1.5, 1])
    diagram(axes[0, 0], data)
    jumps(axes[0, 1], data)
    named = proven_phases(data)
    headline(
        figure,
        f"Proven at {np.count_nonzero(named)} of {named.size} points: what is optimal; the triple "
        f"point is at density {data.triple.values.mean():.3f}, not 4/7",
    )
    letter_panels(axes[0])
    return figure


def diagram(ax: Axes, data: xr.Dataset) -> None:
    """Proven classes by colour, with enclosed boundaries and the closed forms' lines."""
    named = proven_phases(data)
    p, r = data.density.values, data.importance.values
    colours = np.array([[to_rgb(COLOURS[name]) for name in row] for row in named])
    ax.pcolormesh(p, r, colours.transpose(1, 0, 2), **CELLS)
    open_ = np.nonzero(named == "")
    ax.plot(p[open_[0]], r[open_[1]], "x", color=BLACK, markersize=3, linestyle="none")
    _closed_forms(ax)
    _ignoring_limit(ax)
    _enclosed(ax, data)
    _scales(ax)
    ax.set(xlabel=r"density $p = 1 - S$", ylabel="importance of the last feature")
    for x, y, text, colour, ha in (
        (0.93, 0.125, "ignored", BLACK, "left"),
        (0.93, 8.0, "dedicated", "white", "left"),
        (0.012, 3.0, "superposed", "white", "right"),
    ):
        ax.text(x, y, text, color=colour, ha=ha, va="center", fontsize=7)
    ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=2,
        fontsize=6.5,
        handlelength=1.8,
        columnspacing=1.2,
    )


def _closed_forms(ax: Axes) -> None:
    """Boundary of equal loss of two closed forms, as in the figure of `toy_phase`."""
    p = np.geomspace(0.01, TRIPLE_OF_CLOSED_FORMS, 200)
    low = 2 * p / (4 - 5 * p)
    line: dict[str, Any] = {"color": GREY, "linewidth": 0.9}
    ax.plot(p, low, label="closed forms", **line)
    ax.plot(p, 1 / low, **line)
    ax.plot([TRIPLE_OF_CLOSED_FORMS, 1], [1, 1], **line)
    ax.plot([TRIPLE_OF_CLOSED_FORMS], [1], "o", color=GREY, markersize=4, fillstyle="none")


def _ignoring_limit(ax: Axes) -> None:
    """Stability limit of ignoring the last, or the first, feature."""
    p = np.geomspace(0.01, 1, 200)
    line: dict[str, Any] = {"color": BLACK, "linewidth": 0.8, "linestyle": "--"}
    ax.plot(p, ignoring_limit(p), label="ignoring a feature is unstable inside", **line)
    ax.plot(p, 1 / ignoring_limit(p), **line)


def _enclosed(ax: Axes, data: xr.Dataset) -> None:
    """Enclosed boundaries below importance 1, and their mirror images; the triple point."""
    middle = np.sqrt(data.boundary.prod("side", skipna=False).values)
    mark: dict[str, Any] = {"color": BLACK, "linestyle": "none"}
    ax.plot(
        data.line.values, middle, ".", markersize=5, label="boundary, between two proofs", **mark
    )
    ax.plot(data.line.values, 1 / middle, ".", markersize=5, **mark)
    place = data.triple.values.mean()
    ax.plot([place], [1], "*", markersize=7, label=f"triple point, $p = {place:.4f}$", **mark)


def jumps(ax: Axes, data: xr.Dataset) -> None:
    """Ranges of the last feature's norm on both sides of each enclosed boundary."""
    p = data.line.values
    for side, colour, label in (
        ("below", SKY, "importance just below the boundary"),
        ("above", ORANGE, "just above it"),
    ):
        low, high = (
            np.sqrt(data.boundary_second.sel(side=side, end=end).values) for end in ("low", "high")
        )
        ax.vlines(p, low, high, color=colour, linewidth=5, label=label)
        ax.plot(p, np.where(high - low < LEAST_BAR, (low + high) / 2, np.nan), "s", color=colour)
    reference_line(ax, y=0.5, label="counts as ignored below", style="dotted")
    ax.set(xlabel=r"density $p = 1 - S$", ylabel=r"norm $|W_2|$ of all minimisers", ylim=(0, 1.1))
    ax.set_xlim(left=0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=6.5)


def families(record: Record) -> Figure:
    """The pentagon's loss less that of two digons, over density."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.4)
    ax = axes[0, 0]
    p, place = data.family_density.values, data.crossing.values
    low = data.pentagon.sel(end="low") - data.digons.sel(end="high")
    high = data.pentagon.sel(end="high") - data.digons.sel(end="low")
    ax.plot(p, 100 * (low + high).values / 2, "-o", color=PINK, markersize=3)
    zero_line(ax)
    reference_line(ax, x=place.mean(), style="dotted")
    ax.annotate(
        f"$p = {place.mean():.5f}$",
        (place.mean(), 0),
        xytext=(6, -12),
        textcoords="offset points",
        fontsize=7,
    )
    ax.set(
        xlabel=r"density $p = 1 - S$ of five features",
        ylabel="pentagon less two digons\n(sum loss × 100)",
        xlim=(0, None),
    )
    headline(figure, f"The pentagon is best below density {place.mean():.4f}")
    return figure


def _scales(ax: Axes) -> None:
    ax.set(xscale="log", yscale="log", xlim=(1, 0.01), ylim=(0.1, 10))
    ax.set_xticks([1, 0.1, 0.01], ["1", "0.1", "0.01"])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()
    ax.spines[:].set_visible(True)


FIGURES = (
    FigureSpec(
        "proof",
        proof,
        message="Proven class of every global minimiser at each point (left); a cross where "
        "nothing is proven.",
        caption="Closed forms are right away from the boundaries only; the exact triple point is "
        "denser than theirs.",
        refuted="This is refuted if a cross lies in the middle of a region. Right: at enclosed "
        "boundaries the last feature's norm differs between both sides. Bars are proven ranges, "
        "long where a proof is coarse; refuted if short ones of a density overlap.",
    ),
    FigureSpec(
        "families",
        families,
        message="The best pentagon overtakes the best digons at one density.",
        refuted="This is refuted if the curves cross elsewhere.",
        where=lambda record: not record.notes["missing"],
    ),
)
