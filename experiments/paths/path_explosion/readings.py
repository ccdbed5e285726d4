"""Paths of models of every depth: what each order is worth, the ledger, and the figures."""

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
from circuitax.figures.style import (
    BLACK,
    BLUE,
    COLUMN,
    DEPTH_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    ORDER_COLOURS,
    PINK,
    SKY,
    letter_panels,
    new_figure,
    sample_note,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.sample import Sample, exactly, mean_of, members_where, share_of

DEPTHS = (*DEPTH_COLOURS[1:], BLACK, BLACK, BLACK)
ORDERS = (*ORDER_COLOURS, PINK, BLACK, BLACK, BLACK, BLACK)


def order_2_below_1(data: xr.Dataset) -> Sample:
    """What order 1 adds to the right token's lead less what order 2 adds, two layers, nats."""
    return mean_of(first_above_second(members_where(data.isel(depth=1))))


def late_gain(data: xr.Dataset) -> Sample:
    """Share of the deepest models' gain over a guess that orders 3 and up bring."""
    last = members_where(data.isel(depth=-1)).loss.values
    return mean_of((last[:, 2] - last[:, -1]) / (float(data.guess) - last[:, -1]))


def next_step(data: xr.Dataset, layers: int) -> Sample:
    """Loss on answers one step further than there are layers, less that at as many steps, nats."""
    by_steps = members_where(data.isel(depth=layers - 1)).loss_by_steps
    return mean_of(by_steps.sel(steps=layers + 1) - by_steps.sel(steps=layers))


def proven(data: xr.Dataset) -> Sample:
    """Share of the deepest models in which the ledger proves its paths to be the largest."""
    return share_of(members_where(data.isel(depth=-1)).complete.all("text"))


def evaluated(data: xr.Dataset) -> Sample:
    """Share of all paths of the deepest models that the ledger evaluates."""
    return mean_of(members_where(data.isel(depth=-1)).evaluated.mean("text"))


def count_error(data: xr.Dataset) -> Sample:
    """Greatest difference of ``C(L, k) H^k`` from an enumeration."""
    return exactly(np.abs(data["count"] - data.enumerated).max())


def path_remainder(data: xr.Dataset) -> Sample:
    """Greatest remainder of the sum of all paths, over the greatest logit."""
    return exactly(data.remainder.where(data.alive).max())


def brute_force_gap(data: xr.Dataset) -> Sample:
    """Greatest difference of the ledger's largest paths from all paths one by one, relative."""
    return exactly(members_where(data.isel(depth=-1)).brute_force_gap.max())


def first_above_second(members: xr.Dataset) -> xr.DataArray:
    """What order 1 adds to the right token's lead minus what order 2 adds, nats, of each member.

    A token that leads by ``a`` has the loss ``log(1 + (e^guess - 1) e^-a)``. Losses have a floor:
    what is added first would save more of them. Order 1 is counted from a guess where the direct
    path is worse than one: undoing it is no gain.
    """
    leads = -np.log(np.expm1(members.loss) / np.expm1(members.guess))
    direct, first, second = (leads.isel(order=k) for k in range(3))
    return (first - np.maximum(direct, 0)) - (second - first)


def depth(data: xr.Dataset) -> Figure:
    """Loss on the answers against the number of layers, for each number of steps."""
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
        label = "asked for 1 step" if steps == 1 else f"asked for {steps} steps"
        interval_bars(ax, places, estimates, colour=colour, label=label, marker="o", markersize=3)
    reference_line(ax, y=data.guess, label="a guess")
    ax.set(xlabel="layers", ylabel="loss on answers, nats", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="center right")
    sample_note(figure, _sample(data))
    return figure


def orders(data: xr.Dataset) -> Figure:
    """Counts on a logarithmic axis, above the loss of all paths up to each order."""
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


def ledger(data: xr.Dataset) -> Figure:
    """All paths by size with their proven bounds, first text; the largest of one member."""
    data = members_where(data.isel(depth=-1)).isel(text=0)
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
    """Means over the members of one depth with their intervals, for each order."""
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
