"""Leads that circuits of neurons and heads keep, by their size and by what chose them."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import reference_line, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits.measures import (
    CHANCE,
    KEPT,
    fewest,
    leads_of,
    resampled,
    rights,
    shares,
    sizes_of,
)
from experiments.real_models.shared.model_facts import model_read

COLOURS = {
    "paths": BLUE,
    "RelP": ORANGE,
    "gradient": GREEN,
    "direct effect": PINK,
    CHANCE: GREY,
}


def circuits(record: Record) -> Figure:
    """Share of the lead that is kept, by number of nodes, for each task."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    tasks, parts = [str(task) for task in data.task.values], [str(p) for p in data.part.values]
    figure, axes = new_figure(len(parts), len(tasks), height=4.2)
    for row, part in zip(axes, parts, strict=True):
        for panel, task in zip(row, tasks, strict=True):
            zero_line(panel)
            reference_line(panel, y=KEPT)
            if rights(data, task).any():
                _curves(panel, data, task, part)
            panel.set(xscale="log", title=task, xlabel=f"{part} kept")
        row[0].set(ylabel="share of the lead kept")
    panels = [panel for row in axes for panel in row]
    top = max(panel.get_ylim()[1] for panel in panels)
    for panel in panels:
        panel.set(ylim=(-0.1, top))
    lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    axes[0][-1].legend(handles=lines, fontsize=6, loc="upper left")
    letter_panels(panels)
    numbers = [int(rights(data, task).sum()) for task in tasks]
    sample_note(
        figure,
        f"pairs of sentences: {', '.join(map(str, numbers))}; band: 95 %, pairs resampled; cross: "
        f"mean, least and largest of {data.sizes['order']} random orders; dotted: 80 %",
    )
    if numbers[0] > 1:
        found = fewest(record, tasks[0], parts[0], "RelP")
        # No smaller circuit was tried.
        low = "at most" if found.low <= sizes_of(data, "RelP")[0] else f"{found.low:.0f} to"
        headline(
            figure,
            f"{what}: {found.value:.0f} ({low} {found.high:.0f}) of {record.notes['n_neurons']:,} "
            "neurons, chosen by RelP, keep 80 % of agreement",
        )
    return figure


def _curves(panel: Axes, data: xr.Dataset, task: str, part: str) -> None:
    """Shares by what chose the nodes, with their intervals, and of random orders."""
    for by in map(str, data.chosen_by.values):
        leads, sizes = leads_of(data, task, part, by), sizes_of(data, by)
        panel.plot(sizes, shares(*leads), ".-", color=COLOURS[by], markersize=4)
        low, high = np.quantile(resampled(*leads), (0.025, 0.975), axis=0)
        panel.fill_between(sizes, low, high, color=COLOURS[by], alpha=0.15, linewidth=0)
    orders = [shares(*leads_of(data, task, part, i)) for i in range(data.sizes["order"])]
    mean, sizes = np.mean(orders, axis=0), sizes_of(data, CHANCE)
    ends = np.array([mean - np.min(orders, axis=0), np.max(orders, axis=0) - mean])
    panel.errorbar(sizes, mean, ends, fmt="x", color=GREY, markersize=4, linewidth=0.8, zorder=5)


FIGURES = (
    FigureSpec(
        "circuits",
        circuits,
        message="Neurons and heads that keep a task when all others are set to their means: how "
        "many it takes depends on what chooses them.",
        caption="Above heads are untouched, and neurons alone are counted; below both are. Shares "
        "are over what is left with none of them kept; above 1 what is set to means spoke against "
        "the right token.",
        refuted="Refuted if the curves lie on that of chance.",
    ),
)
