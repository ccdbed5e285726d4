"""Paths multiply with depth, and the loss comes from the shortest."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    reference_line,
    seed_dots,
    zero_line,
)
from circuitax.figures.palette import (
    BLACK,
    BLUE,
    DEPTH_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    ORDER_COLOURS,
    PINK,
    SKY,
)
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record

DEPTHS = (*DEPTH_COLOURS[1:], BLACK, BLACK, BLACK)
ORDERS = (*ORDER_COLOURS, PINK, BLACK, BLACK, BLACK, BLACK)


def depth(record: Record) -> Figure:
    """Loss on the answers against the number of layers, for each number of steps."""
    data = record.data
    figure, axes = new_figure(1, 1, height=2.4, width=COLUMN)
    ax = axes[0, 0]
    for i, steps in enumerate(data.steps.values):
        rows = [
            members_where(data.isel(depth=at)).loss_by_steps.sel(steps=steps).values
            for at in range(data.sizes["depth"])
        ]
        shift = 0.08 * (i - (data.sizes["steps"] - 1) / 2)
        estimates = [mean_estimate(row) for row in rows]
        places = data.depth.values + shift
        colour = (GREY, BLUE, ORANGE, GREEN, PINK, SKY, BLACK)[i % 7]
        ax.plot(places, [e.value for e in estimates], color=colour, linewidth=0.8)
        for place, row in zip(places, rows, strict=True):
            seed_dots(ax, place, row, colour, half_width=0.03)
        label = "1 step" if steps == 1 else f"{steps} steps"
        interval_bars(ax, places, estimates, colour=colour, label=label, marker="o", markersize=3)
    reference_line(ax, y=data.guess, label="a guess")
    ax.set(xlabel="layers", ylabel="loss on answers, nats", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(title="the question asks for", title_fontsize=7)
    sample_note(figure, _sample(data))
    return figure


def orders(record: Record) -> Figure:
    """Counts on a logarithmic axis, above the loss of all paths up to each order."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.6)
    counts, losses = axes[0]
    for i, depth in enumerate(data.depth.values):
        present = np.arange(int(depth) + 1)
        number = data["count"].isel(depth=i, order=present)
        counts.plot(present, number, color=DEPTHS[i], marker="o", markersize=3)
        _means(losses, members_where(data.isel(depth=i)).loss.isel(order=present))
    counts.set(yscale="log", ylabel="paths of this order", title="$C(L, k)\\,H^k$ paths")
    reference_line(losses, y=data.guess)
    losses.annotate(
        "a guess",
        (1, float(data.guess)),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=7,
    )
    losses.set(ylabel="loss on answers, nats", title="paths up to this order")
    _label_orders(axes[0])
    legend_above(figure, losses, columns=6)
    letter_panels(axes[0])
    sample_note(figure, f"b: {_sample(data)}")
    return figure


def sizes(record: Record) -> Figure:
    """Root mean square logits by order, and Shapley values of layers."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.6)
    size, worth = axes[0]
    for i, depth in enumerate(data.depth.values):
        present = np.arange(int(depth) + 1)
        members = members_where(data.isel(depth=i))
        _means(size, members["size"].isel(order=present))
        _means(worth, members.shapley.isel(layer=present[:-1]))
    size.set(yscale="log", ylabel="root mean square logit", title="size of each order")
    worth.set(xlabel="layer", ylabel="Shapley value, nats", title="worth of each layer")
    zero_line(worth)
    _label_orders([size])
    worth.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(figure, size, columns=6)
    letter_panels(axes[0])
    sample_note(figure, _sample(data))
    return figure


def ledger(record: Record) -> Figure:
    """All paths by size with their proven bounds, first text; the largest of one member."""
    data = members_where(record.data.isel(depth=-1)).isel(text=0)
    figure, axes = new_figure(1, 2, height=3.4, width_ratios=(1.2, 1))
    sizes, bars = axes[0]
    places = 1 + np.arange(data.sizes["place"])
    for i in range(data.sizes["member"]):
        one = data.isel(member=i)
        first = i == 0
        sizes.plot(
            one["rank"],
            one.all_sizes,
            color=GREY,
            linewidth=0.8,
            label="all paths, one by one" if first else None,
        )
        sizes.plot(
            places,
            abs(one.top),
            ".",
            color=BLUE,
            markersize=3,
            label="found by the ledger" if first else None,
        )
        sizes.plot(
            places[-1] + 1,
            one.omitted_bound,
            "_",
            color=ORANGE,
            markersize=7,
            label="bound on any other" if first else None,
        )
    sizes.set(
        xscale="log",
        yscale="log",
        xlabel="rank of the path",
        ylabel="|logit|",
        title=f"{int(data['rank'][-1]):,} paths, {data.sizes['member']} models",
    )
    sizes.set_ylim(bottom=float(data.all_sizes.max()) * 1e-6)
    sizes.legend(loc="lower left")
    one = data.isel(member=0)
    names = [str(name) for name in one.top_path.values]
    order = np.array([name.count("→") + (name != "direct") for name in names])
    bars.barh(places, one.top, color=[ORDERS[k] for k in order])
    bars.set_yticks(places, names, fontsize=6)
    bars.invert_yaxis()
    zero_line(bars, vertical=True)
    bars.set(xlabel="contribution, logits", title="the first of them: layer.head")
    handles = [Patch(color=ORDERS[k], label=f"order {k}") for k in np.unique(order)]
    bars.legend(handles=handles, loc="lower right", fontsize=6)
    letter_panels(axes[0])
    return figure


def _sample(data: xr.Dataset) -> str:
    return f"mean and 95 % interval of {data.sizes['member']} seeds at each depth"


def _means(ax: Axes, values: xr.DataArray) -> None:
    """Means over the members of one depth with their intervals, for each order or layer."""
    depth = int(values.depth)
    rows = values.transpose(..., "member").values
    interval_bars(
        ax,
        np.arange(len(rows)),
        [mean_estimate(row) for row in rows],
        colour=DEPTHS[depth - 1],
        label=f"{depth} layer" + "s" * (depth > 1),
        marker="o",
        markersize=3,
    )


def _label_orders(axes: list[Axes]) -> None:
    for ax in axes:
        ax.set_xlabel("order: heads on a path")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


FIGURES = (
    FigureSpec(
        "depth",
        depth,
        message="Deeper models look up more steps of a map: one layer one step, further layers "
        "further steps.",
        caption="Loss on the answers to questions about one, two and three steps.",
        refuted="Refuted if one layer answers them all, or six answer no more than one.",
    ),
    FigureSpec(
        "orders",
        orders,
        message="The number of paths grows with depth, but the shortest save most of the loss.",
        caption="Number of paths of each order, and the loss on answers with all paths up to it.",
        refuted="Refuted if the loss still falls where the counts are highest.",
    ),
    FigureSpec(
        "sizes",
        sizes,
        message="Beyond two heads longer paths add smaller logits; every layer lowers the loss.",
        caption="Size of the logits of each order, and the layers that the loss depends on. A "
        "model may be full of large terms that cancel: then sizes grow where the saved loss does "
        "not.",
    ),
    FigureSpec(
        "ledger",
        ledger,
        message="The ledger finds the largest of thousands of paths, and bounds all others.",
        caption="Every path of the deepest models by size, the twenty that the ledger proves "
        "largest, and its bound on the rest; the twenty of one model by name.",
        refuted="Refuted if a path outside the twenty is larger than one inside.",
    ),
)
