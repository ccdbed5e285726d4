"""Figures of cost_of_size, drawn from its record alone.

growth   All pairs cost the square, and no memory for the pairs; paths cost less than their root.
         Processor time and memory against size, and where one machine ends. Refuted if a curve is
         steeper than its dotted line.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, legend_above
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from experiments.cost_of_size.measures import costs_of, end_of_one_machine, exponent

PANELS = {
    "heads": "heads",
    "vocabulary": "tokens of the vocabulary, V",
    "paths": "paths of heads",
    "members": "toy models in training",
    "points": "points",
    "dimensions": "dimensions of 1,000 points",
}
COSTS = {
    "seconds": (BLUE, "o", "processor time, s"),
    "megabytes": (ORANGE, "s", "memory, MB"),
}


@styled
def draw(record: Record) -> dict[str, Figure]:
    """One panel for each thing that grows, time and memory on one logarithmic axis."""
    figure, axes = new_figure(2, 3, height=4.2)
    for ax, (name, label) in zip(axes.ravel(), PANELS.items(), strict=True):
        slopes = []
        for cost, (colour, mark, what) in COSTS.items():
            size, costs = costs_of(record.data, name, cost)
            middle = np.median(costs, axis=1)
            ends = [
                Estimate(m, row.min(), row.max(), len(row), "least and largest round")
                for m, row in zip(middle, costs, strict=True)
            ]
            interval_bars(ax, size, ends, colour=colour, fmt=mark, markersize=3)
            ax.plot(size, middle, color=colour, marker=mark, markersize=3, label=what)
            slope = exponent(record.data, name, cost).value
            _continued(ax, size, middle, slope)
            slopes.append(slope)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.set_title("time ^{:.2f}, memory ^{:.2f}".format(*slopes), fontsize=7)
        size, first = end_of_one_machine(record.data, name)
        ax.text(0.97, 0.05, _end(size, first), ha="right", fontsize=6.5, transform=ax.transAxes)
    for row in axes:
        row[0].set_ylabel("s, and MB")
    legend_above(figure, axes[0, 0], columns=2)
    letter_panels(axes.ravel())
    return {"growth": figure}


def _continued(ax: Axes, size: np.ndarray, cost: np.ndarray, slope: float) -> None:
    """The line of the exponent through the last point, over the sizes that it was measured at."""
    ax.plot(size, cost[-1] * (size / size[-1]) ** slope, color=BLACK, linestyle=":", linewidth=0.8)


def _end(size: float, first: str) -> str:
    if not np.isfinite(size):
        return "no end"
    return f"ends near {size:.1g}\nby {'time' if first == 'seconds' else 'memory'}"
