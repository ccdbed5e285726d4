"""Differences of two texts: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_lengths, mean_curve, reference_line
from circuitax.figures.palette import BLUE, COLOURS, GREY
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import geometric_estimate, mean_estimate
from circuitax.records.sample import Sample, exactly, geometric_mean_of, mean_of
from experiments.real_models.shared.model_facts import of_smollm2

TRUTHS = {"position": "positions", "part": "parts of a layer", "head": "heads", "neuron": "neurons"}
# What says how well flows agree with a truth, and what flows that say nothing have.
JUDGED = {
    "relative error": (lambda flow, truth: np.linalg.norm(flow - truth) / np.linalg.norm(truth), 1),
    "correlation": (lambda flow, truth: np.corrcoef(flow, truth)[0, 1], 0),
    "equal signs": (lambda flow, truth: (1 + np.sign(flow * truth)[truth != 0].mean()) / 2, 0.5),
}
SHOWN = ("secant", "mean of both gradients", "EAP-IG, 5 steps", "RelP", "random")


def agreement(
    data: xr.Dataset, truth: str, method: str, than: str = "", by: str = "relative error"
) -> Sample:
    """How well the flows of a pair agree with a truth, less how well those of another method do."""
    less = judged(data, truth, than, by) if than else 0
    return mean_of(judged(data, truth, method, by) - less)


def ratio(data: xr.Dataset, truth: str, method: str, than: str) -> Sample:
    """Geometric mean of the error of one method over that of another."""
    return geometric_mean_of(np.log(judged(data, truth, method) / judged(data, truth, than)))


def closing(data: xr.Dataset) -> Sample:
    """Largest difference between the flow through a cut and that of the lead, over the latter."""
    delta = -of_smollm2(data).lead.diff("side").isel(side=0)
    return exactly(np.abs(data.crossing.sum("place") / delta - 1).max(), delta.size)


def at_place(data: xr.Dataset, task: str, first: int, last: int, more: int, less: int) -> Sample:
    """Share of the difference at one place less that at another, mean over cuts of a range."""
    shares = shares_of(of_smollm2(data), task).isel(stage=slice(first, last + 1)).mean("stage")
    return mean_of((shares.sel(place=more) - shares.sel(place=less)).values)


def by_reading(data: xr.Dataset, task: str, chosen_by: str, n: int, read: str) -> Sample:
    """Share of the difference by one way of reading less that by others, in the top heads."""
    of = of_smollm2(data).sel(task=task)
    heads = np.argsort(-of.chosen_by.sel({"method": chosen_by}).values)[:n]
    by_read = of.route.isel(head=heads).sum("head")
    more = (2 * by_read.sel(read=read) - by_read.sum("read")) / -of.whole.diff("side").isel(side=0)
    return mean_of(more.values[is_right(of.whole).values])


def area(data: xr.Dataset, method: str, than: str) -> Sample:
    """Area below the faithfulness of circuits of one choice, less that of another."""
    both = [faithfulness(of_smollm2(data), name) for name in (method, than)]
    share = data["size"].values / data["size"].values[-1]
    return mean_of(np.trapezoid(both[0] - both[1], share, axis=-1))


def judged(data: xr.Dataset, truth: str, method: str, by: str = "relative error") -> np.ndarray:
    """How well the flows of each pair agree with a truth."""
    return np.array([JUDGED[by][0](*each) for each in of_pairs(data, truth, method)])


def of_pairs(data: xr.Dataset, truth: str, method: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Flows of a method and what interchange does, of the pairs of which both texts are right."""
    flow = of_smollm2(data)[f"{truth}_flow"].sel({"method": method}).values
    if f"{truth}_value" in data:
        value = data[f"{truth}_value"].values
    else:  # single interchange, in both texts
        taken = data.whole.values[:, : flow.shape[1], :, None] - data[f"{truth}_lead"].values
        value = (taken[:, :, 0] - taken[:, :, 1]) / 2
    right = is_right(data.whole).values[:, : flow.shape[1]]
    return [(f.ravel(), v.ravel()) for f, v in zip(flow[right], value[right], strict=True)]


def is_right(lead: xr.DataArray) -> xr.DataArray:
    """Whether the model is right at both texts of a pair."""
    return (lead.isel(side=0) > 0) & (lead.isel(side=1) < 0)


def shares_of(data: xr.Dataset, task: str) -> xr.DataArray:
    """Flow over difference of all right pairs of a task, by cut and place."""
    of = data.sel(task=task).stack(each=("half", "pair"))
    shares = of.crossing / -of.lead.diff("side").isel(side=0)
    return shares.isel(each=np.flatnonzero(is_right(of.lead)))


def faithfulness(data: xr.Dataset, method: str) -> np.ndarray:
    """``(F(C) - F(∅)) / (F(M) - F(∅))`` of each right pair, F(M) - F(∅) the mean of its task."""
    sign = xr.DataArray([0.5, -0.5], dims="side")
    kept, whole = ((x * sign).sum("side") for x in (data.kept.sel(ranked_by=method), data.whole))
    empty = kept.isel(size=0)
    return ((kept - empty) / (whole - empty).mean("unit")).values[is_right(data.whole).values]


def sums(data: xr.Dataset) -> Figure:
    """How well all methods agree with each truth."""
    figure, axes = new_figure(len(JUDGED), len(TRUTHS), height=6.6, sharey=True, sharex="row")
    methods = [str(name) for name in data.method.values][::-1]
    for (by, (_, nothing)), line in zip(JUDGED.items(), axes, strict=True):
        for panel, truth in zip(line, TRUTHS, strict=True):
            for row, name in enumerate(methods):
                found = judged(data, truth, name, by)
                if not np.isnan(found).all():  # a method may have no flows of a kind
                    log = by == "relative error"
                    e = geometric_estimate(np.log(found)) if log else mean_estimate(found)
                    colour = BLUE if name.startswith("secant") else GREY
                    panel.errorbar(e.value, row, xerr=interval_lengths([e]), fmt=".", color=colour)
            reference_line(panel, x=nothing)
            panel.set(title=TRUTHS[truth], xlabel=f"{by}, n = {found.size}")
        line[0].set_yticks(range(len(methods)), methods, fontsize=6)
    axes[0][0].set_xscale("log")
    letter_panels(axes.flat)
    return figure


def crossing(data: xr.Dataset) -> Figure:
    """Share of the difference by position, over layers, for each task."""
    tasks = [str(task) for task in data.task.values]
    figure, axes = new_figure(2, len(tasks) // 2, height=3.6, sharex=True)
    for panel, task in zip(axes.flat, tasks, strict=True):
        shares = shares_of(of_smollm2(data), task)
        for colour, place in zip(COLOURS, data.place.values, strict=False):
            rows = shares.sel(place=place).transpose("stage", "each").values
            mean_curve(panel, np.arange(len(rows)), rows, colour, label=f"{place}")
        panel.set(title=f"{task}, n = {shares.sizes['each']}")
    axes[0][0].legend(title="position from the end", fontsize=6, title_fontsize=6)
    axes[0][0].set(ylabel="share of the difference")
    axes[1][0].set(xlabel="entry of layer", ylabel="share of the difference")
    letter_panels(axes.flat)
    return figure


def circuits(data: xr.Dataset) -> Figure:
    """Faithfulness of circuits of the nodes with the largest flows, by their number."""
    figure, axes = new_figure(1, 1, height=3.0)
    panel = axes[0][0]
    for colour, name in zip((*COLOURS[: len(SHOWN) - 1], GREY), SHOWN, strict=True):
        rows = faithfulness(of_smollm2(data), name).T
        mean_curve(panel, data["size"].values, rows, colour, label=name, marker=".", opacity=0.15)
    reference_line(panel, y=1)
    panel.set(xscale="symlog", xlabel="heads and MLPs kept", ylabel="faithfulness", xlim=(0, None))
    panel.legend(fontsize=6)
    return figure
