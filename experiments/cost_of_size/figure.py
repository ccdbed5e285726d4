"""Figures of cost_of_size, drawn from its record alone.

growth   All pairs cost the square, and no memory for the pairs; paths cost less than their root.
         Processor time and memory against size n, and where one machine of two cores and 16 GB
         ends within a day. Refuted if a curve is steeper than its dotted line.
"""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from experiments.cost_of_size.measures import costs_of, end_of_one_machine, exponent

FAR = 1e4  # no line is continued further than so many times the largest size
ALLOWED = "the most that claims allow"
# What grows, and the exponents of time and memory that claims allow at most.
PANELS: dict[str, tuple[str, float, float | None]] = {
    "heads": ("heads", 2, 1),
    "vocabulary": ("tokens of the vocabulary", 2, 1),
    "paths": ("paths of heads", 0.5, None),
    "members": ("toy models in training", 1, 1),
    "points": ("points", 2, 1),
    "dimensions": ("dimensions of 1,000 points", 1, 1),
}
COSTS = {
    "seconds": (BLUE, "o", "processor time, s"),
    "megabytes": (ORANGE, "s", "memory, MB"),
}


@styled
def draw(record: Record) -> dict[str, Figure]:
    """One panel for each thing that grows, time and memory on one logarithmic axis."""
    figure, axes = new_figure(2, 3, height=4.4)
    for ax, (name, (label, *allowed)) in zip(axes.ravel(), PANELS.items(), strict=True):
        slopes = []
        for (cost, (colour, mark, what)), most in zip(COSTS.items(), allowed, strict=True):
            size, costs = costs_of(record.data, name, cost)
            middle = np.median(costs, axis=1)
            ends = [
                Estimate(m, row.min(), row.max(), len(row), "least and largest round")
                for m, row in zip(middle, costs, strict=True)
            ]
            interval_bars(ax, size, ends, colour=colour, fmt=mark, markersize=3)
            ax.plot(size, middle, color=colour, marker=mark, markersize=3, label=what)
            slopes.append(exponent(record.data, name, cost).value)
            if most is not None:
                line = middle[-1] * (size / size[-1]) ** most
                ax.plot(size, line, color=BLACK, linestyle=":", linewidth=0.8, label=ALLOWED)
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.set_xticks(size, [_short(each) for each in size])
        ax.minorticks_off()
        grown = "time $\\propto n^{{{:.2f}}}$, memory $\\propto n^{{{:.2f}}}$".format(*slopes)
        end = _end(*end_of_one_machine(record.data, name), size[-1])
        ax.set_title(f"{grown}\n{end}", fontsize=7)
    for row in axes:
        row[0].set_ylabel("s, and MB")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown, loc="outside upper center", ncols=3)
    letter_panels(axes.ravel())
    return {"growth": figure}


def _end(size: float, first: str, largest: float) -> str:
    if size > FAR * largest:
        return f"ends beyond {_short(FAR * largest)}"
    return f"ends near {_short(size)}, by {'time' if first == 'seconds' else 'memory'}"


def _short(size: float) -> str:
    """Two digits: 256, 8k, 130M; a power of ten beyond."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit <= size < 1000 * unit:
            return f"{float(f'{size / unit:.2g}'):g}{name}"
    return f"{size:.0f}" if size < 1000 else f"$10^{{{np.log10(size):.0f}}}$"
