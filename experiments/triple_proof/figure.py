"""What is proven of three features in two dimensions, against the work it takes.

levels      At each point of density and importance of the last feature: the loss below which no
            solution of a class lies, over the best loss known, against the boxes that were bounded.
            A star: the class is excluded. This is refuted as a proof if the class that the
            optimiser finds, which is drawn thick, has a star.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.style import headline, letter_panels, new_figure, styled
from circuitax.records.record import Record
from experiments.triple_proof.measures import last_levels, optimiser_classes

COLOURS = {"ignored": BLACK, "dedicated": BLUE, "superposed": ORANGE}
COLUMNS = 3


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figure of the experiment."""
    return {"levels": levels(record.data)}


def levels(data: xr.Dataset) -> Figure:
    """One panel a point: for each class of solutions a line that rises with the boxes bounded."""
    n = data.sizes["point"]
    rows = -(-n // COLUMNS)
    figure, axes = new_figure(rows, COLUMNS, height=0.6 + 2.2 * rows, sharey=True)
    panels = axes.ravel()
    best = optimiser_classes(data).values
    for i, ax in enumerate(panels):
        if i < n:
            _panel(ax, data.isel(point=i), str(best[i]))
        else:
            ax.set_axis_off()
    for row in axes:
        row[0].set_ylabel("proven bound / best loss")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    proven = int((np.isfinite(last_levels(data).values).sum(axis=1) == 1).sum())
    gap = float((data.lower.max("level") / data.upper).min())
    headline(
        figure,
        f"Which class is optimal is proven at {proven} of {n} points; the optimal loss is at least "
        f"{100 * gap:.0f} % of the best known",
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
        width = 2.2 if name == best else 1.0
        label = f"last feature {name}"
        ax.plot(work[reached][finite], bound[finite], color=colour, linewidth=width, label=label)
        if not finite.all():
            at = float(work[reached][~finite][0])
            # Classes that are excluded at one level have their stars above each other.
            height = 1 + 0.08 * excluded.count(at)
            ax.plot([at], [height], "*", color=colour, markersize=8, clip_on=False)
            excluded.append(at)
    ax.set(
        xscale="log",
        xlabel="boxes bounded",
        ylim=(0, 1.15),
        title=f"p = {float(data.density):g}, importance {float(data.importance):g}",
    )
