"""Paths of models of every depth: what each order is worth, and the figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from circuitax.figures.marks import interval_bars, legend_above, reference_line
from circuitax.figures.palette import BLACK, DEPTH_COLOURS
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, exactly, mean_of

DEPTHS = (*DEPTH_COLOURS[1:], BLACK, BLACK, BLACK)


def order_2_below_1(data: xr.Dataset) -> Sample:
    """What order 1 adds to the right token's lead less what order 2 adds, two layers, nats."""
    return mean_of(first_above_second(members_where(data.isel(depth=1))))


def late_gain(data: xr.Dataset) -> Sample:
    """Share of the deepest models' gain over a guess that orders 3 and up bring."""
    last = members_where(data.isel(depth=-1)).loss.values
    return mean_of((last[:, 2] - last[:, -1]) / (float(data.guess) - last[:, -1]))


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


def orders(data: xr.Dataset) -> Figure:
    """Counts on a logarithmic axis, above the loss of all paths up to each order."""
    figure, axes = new_figure(1, 2, height=2.6)
    counts, losses = axes[0]
    for i, depth in enumerate(data.depth.values.tolist()):
        present = np.arange(depth + 1)
        number = data["count"].isel(depth=i, order=present)
        counts.plot(present, number, color=DEPTHS[i], marker="o", markersize=3)
        rows = members_where(data.isel(depth=i)).loss.isel(order=present)
        means = [mean_estimate(row) for row in rows.transpose("order", "member").values]
        label, colour = f"{depth} layer" + "s" * (depth > 1), DEPTHS[i]
        interval_bars(losses, present, means, colour=colour, label=label, marker="o", markersize=3)
    counts.set(yscale="log", ylabel="paths of this order", title="$C(L, k)\\,H^k$ paths")
    reference_line(losses, y=data.guess, label="a guess")
    losses.set(ylabel="loss on answers, nats", title="paths up to this order")
    for ax in axes[0]:
        ax.set_xlabel("order: heads on a path")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(figure, losses, columns=7)
    letter_panels(axes[0])
    sample_note(figure, f"b: mean and 95 % interval of {data.sizes['member']} seeds at each depth")
    return figure
