"""Proofs about three features in two dimensions, against the work they take; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.sample import Sample, exactly
from circuitax.superposition.geometry.phases import phases

COLOURS = {"ignored": BLACK, "dedicated": BLUE, "superposed": ORANGE}
COLUMNS = 4
THICK = 2.2


def points(data: xr.Dataset) -> dict[str, Sample]:
    """What is proven at the points, and whether the optimiser's solutions agree with it."""
    n, lower = data.sizes["point"], data.lower.max("level")
    possible = last_levels(data)
    held = possible.sel({"class": optimiser_classes(data)}).values
    return {
        "triple-bound": exactly((lower / data.optimiser_loss).max(), n),
        "triple-candidate": exactly(np.isfinite(held).mean(), n),
        "triple-classes": exactly((np.isfinite(possible.values).sum(axis=1) == 1).mean(), n),
        "triple-gap": exactly((lower / data.upper).min(), n),
    }


def last_levels(data: xr.Dataset) -> xr.DataArray:
    """The bound of every class after the last level that was reached; infinite if excluded."""
    reached = data.lower.notnull().sum("level").values
    bounds = data.class_lower.transpose("point", "level", "class")
    rows = bounds.values[np.arange(reached.size), reached - 1]
    return xr.DataArray(rows, {"point": data.point, "class": data["class"]}, ("point", "class"))


def optimiser_classes(data: xr.Dataset) -> xr.DataArray:
    """The class of the optimiser's best solution at every point."""
    W = data.optimiser_W.transpose("point", "hidden", "feature").values
    products = np.einsum("phf,ph->pf", W, W[:, :, 2])
    size = products[:, 2]
    shared = (products[:, :2] ** 2).sum(axis=1) / np.maximum(size, 1e-12)
    return xr.DataArray(phases(np.sqrt(size), shared).astype(str), dims="point")


def levels(data: xr.Dataset) -> Figure:
    """One panel a point: for each class of solutions a line that rises with the boxes bounded."""
    n = data.sizes["point"]
    rows = -(-n // COLUMNS)
    figure, axes = new_figure(rows, COLUMNS, width=PAGE, height=0.8 + 1.5 * rows, sharey=True)
    panels = axes.ravel()
    best = optimiser_classes(data).values
    for i, ax in enumerate(panels):
        if i < n:
            _panel(ax, data.isel(point=i), str(best[i]))
        else:
            ax.set_axis_off()
    for row in axes:
        row[0].set_ylabel("proven / best loss")
    for ax in panels[max(0, n - COLUMNS) : n]:
        ax.set_xlabel("boxes bounded")
    handles = [
        *(Line2D([], [], color=c, label=name) for name, c in COLOURS.items()),
        Line2D([], [], color=GREY, linewidth=THICK, label="what the optimiser finds"),
        Line2D([], [], color=GREY, linestyle="", marker="*", label="class excluded"),
    ]
    title = "solutions whose last feature is ignored, dedicated or superposed"
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), title=title)
    proven = int((np.isfinite(last_levels(data).values).sum(axis=1) == 1).sum())
    gap = float((data.lower.max("level") / data.upper).min())
    headline(
        figure,
        f"At {proven} of {n} points it is proven which arrangement is best; "
        f"the true minimum is at least {100 * gap:.0f} % of the best loss known",
    )
    letter_panels(panels[:n])
    return figure


def _panel(ax: Axes, data: xr.Dataset, best: str) -> None:
    work = np.nancumsum(data.n_boxes.values)
    reached = data.lower.notnull().values
    reference_line(ax, y=1, style="dotted")
    excluded: list[float] = []
    for name, colour in COLOURS.items():
        bound = data.class_lower.sel({"class": name}).values[reached] / float(data.upper)
        finite = np.isfinite(bound)
        width = THICK if name == best else 1.0
        ax.plot(work[reached][finite], bound[finite], color=colour, linewidth=width)
        if not finite.all():
            at = float(work[reached][~finite][0])
            # Classes that are excluded at one level have their stars above each other.
            height = 1 + 0.08 * excluded.count(at)
            ax.plot([at], [height], "*", color=colour, markersize=8, clip_on=False)
            excluded.append(at)
    ax.set(
        xscale="log",
        ylim=(0, 1.15),
        title=f"$p$ = {float(data.density):g}, $I$ = {float(data.importance):g}",
    )
    ax.xaxis.set_minor_formatter(NullFormatter())
