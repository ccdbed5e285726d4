"""Circuits of neurons and heads: what is read from the record, and its figure."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import reference_line, zero_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate
from circuitax.records.sample import Absent, Sample
from experiments.real_models.shared.model_facts import model_read, of_smollm2

KEPT, RESAMPLES = 0.8, 500
COLOURS = {
    "paths": BLUE,
    "RelP": ORANGE,
    "gradient": GREEN,
    "direct effect": PINK,
    "chance": GREY,
}


def fewest(data: xr.Dataset, task: str, part: str, by: str | int) -> Sample:
    """Fewest nodes that keep 80 % of the lead, with the interval of resampled pairs."""
    data = of_smollm2(data)
    if rights(data, task).sum() < 2:
        raise Absent("the model gets no two pairs of the task right")
    kept, empty, whole = leads_of(data, task, part, by)
    sizes = sizes_of(data, by)
    most = data.attrs["n_neurons"] + (0 if part == "neurons" else data.attrs["n_heads"])
    value = crossing(shares(kept, empty, whole), sizes, most)

    def estimate() -> Estimate:
        drawn = [crossing(each, sizes, most) for each in bootstrapped(kept, empty, whole)]
        low, high = np.quantile(drawn, (0.025, 0.975))
        return Estimate(
            value, min(low, value), max(high, value), whole.size, "pairs resampled, 95%"
        )

    return Sample(value, estimate)


def rights(data: xr.Dataset, task: str) -> np.ndarray:
    """Mask of the pairs of the second half of the words of which both sentences are right."""
    lead = data.lead.sel(task=task, half="looked at")
    return np.asarray((lead > 0).all("side").values)


def leads_of(
    data: xr.Dataset, task: str, part: str, by: str | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads of circuits, with nothing kept, and of the whole model: means of a pair's sentences.

    ``[size, pair]``, ``[pair]`` and ``[pair]``, of the pairs that are right. ``by`` is what chose
    the nodes, or the number of a random order.
    """
    here = data.sel(task=task, part=part).mean("side").isel(pair=rights(data, task))
    one = here.by_chance.isel(order=by) if isinstance(by, int) else here.kept.sel(chosen_by=by)
    return one.values, here.empty.values, here.lead.sel(half="looked at").values


def sizes_of(data: xr.Dataset, by: str | int) -> np.ndarray:
    """Sizes of the circuits that `leads_of` returns."""
    return np.asarray(data["random_size" if isinstance(by, int) else "size"].values)


def shares(kept: np.ndarray, empty: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Share of the lead that circuits keep, over what is left where nothing is kept.

    ``(F(C) - F(∅)) / (F(M) - F(∅))`` with F the mean lead, the faithfulness of the paper's
    benchmark.
    """
    return np.asarray((kept.mean(axis=1) - empty.mean()) / (whole.mean() - empty.mean()))


def bootstrapped(kept: np.ndarray, empty: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """`shares` of pairs drawn with replacement, ``[draw, size]``."""
    rows = np.random.default_rng(0).integers(whole.size, size=(RESAMPLES, whole.size))
    empties = empty[rows].mean(axis=1)
    left = whole[rows].mean(axis=1) - empties
    return np.asarray((kept[:, rows].mean(axis=2) - empties) / left).T


def crossing(shares: np.ndarray, sizes: np.ndarray, most: int) -> float:
    """The least size whose share is 80 %, between sizes by logarithms; ``most`` if none is."""
    above = np.flatnonzero(shares >= KEPT)
    if not above.size:
        return float(most)
    i = above[0]
    if i == 0:
        return float(sizes[0])
    part = (KEPT - shares[i - 1]) / (shares[i] - shares[i - 1])
    return float(np.exp(np.log(sizes[i - 1]) + part * np.log(sizes[i] / sizes[i - 1])))


def circuits(data: xr.Dataset) -> Figure:
    """Share of the lead that is kept, by number of nodes, for each task."""
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
        f"{model_read(data.attrs)}, pairs of sentences: {', '.join(map(str, numbers))}; "
        "band: 95 %, pairs resampled; cross: "
        f"mean, least and largest of {data.sizes['order']} random orders; dotted: 80 %",
    )
    return figure


def _curves(panel: Axes, data: xr.Dataset, task: str, part: str) -> None:
    """Shares by what chose the nodes, with their intervals, and of random orders."""
    for by in map(str, data.chosen_by.values):
        leads, sizes = leads_of(data, task, part, by), sizes_of(data, by)
        panel.plot(sizes, shares(*leads), ".-", color=COLOURS[by], markersize=4)
        low, high = np.quantile(bootstrapped(*leads), (0.025, 0.975), axis=0)
        panel.fill_between(sizes, low, high, color=COLOURS[by], alpha=0.15, linewidth=0)
    orders = [shares(*leads_of(data, task, part, i)) for i in range(data.sizes["order"])]
    mean, sizes = np.mean(orders, axis=0), sizes_of(data, 0)
    ends = np.array([mean - np.min(orders, axis=0), np.max(orders, axis=0) - mean])
    panel.errorbar(sizes, mean, ends, fmt="x", color=GREY, markersize=4, linewidth=0.8, zorder=5)
