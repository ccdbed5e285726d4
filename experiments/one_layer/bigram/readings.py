"""A zero-layer transformer is a low-rank bigram table; a one-layer direct path is none at all."""

import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_column
from circuitax.figures.palette import BLUE, DEPTH_COLOURS, GREY, ORANGE
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, mean_of


def divergence(data: xr.Dataset, width: int = -1) -> Sample:
    """KL divergence of a model without layers from the table, by place among the widths."""
    return mean_of(_fitted(data, width).kl)


def over_table(data: xr.Dataset, width: int = -1) -> Sample:
    """Held-out cross-entropy of that model less the table's, nats."""
    return mean_of(_fitted(data, width).held_out - data.table_held_out_loss)


def bottleneck(data: xr.Dataset) -> Sample:
    """Divergence at the smallest width less that at full width."""
    return mean_of((_fitted(data, 0).kl - _fitted(data, -1).kl).values)


def direct_path(data: xr.Dataset, beside: str) -> Sample:
    """Divergence of the direct path of one layer less that of something beside it."""
    paths = members_where(data, "path_alive").path_kl
    return mean_of((paths.sel(kind="direct path") - paths.sel(kind=beside)).values)


def _fitted(data: xr.Dataset, width: int) -> xr.Dataset:
    """Members that stayed finite at both ends of the widths, at one width."""
    return members_where(data, data.alive.isel(width=[0, -1]).all("width")).isel(width=width)


def widths(data: xr.Dataset) -> Figure:
    """Divergence from the table and cross-entropy, over d_model."""
    figure, axes = new_figure(1, 2, height=2.4)
    left, right = axes[0]
    x = data.width.values
    mean_curve(left, x, data.kl, BLUE, label="zero-layer model", least=1e-6, marker="o")
    left.plot(x[:-1], data.rank_kl.values[:-1], "s:", color=GREY, label="SVD of the log table")
    left.set(yscale="log", ylabel="KL from the table, nats")
    for name, colour, label in (("train", BLUE, "training text"), ("held_out", ORANGE, "held-out")):
        mean_curve(right, x, data[name], colour, label=label, least=1e-6, marker="o")
        table = data[f"table_{name}_loss"]
        reference_line(right, y=table, colour=colour, style="dashed", label=f"table, {label}")
    right.set(ylabel="loss, nats per token")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [f"{w}" for w in x])
        ax.minorticks_off()
        ax.set(xlabel=f"$d_{{model}}$ (vocabulary {x[-1]})")
    left.legend()
    low, high = right.get_ylim()
    right.set_ylim(top=high + 0.3 * (high - low))  # room for the legend above all lines
    right.legend(ncols=2, loc="upper right", fontsize=6)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.kl.sizes['member']} seeds")
    return figure


def paths(data: xr.Dataset) -> Figure:
    """KL from the table of trained text models and of parts of them, seed by seed."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.4)
    ax = axes[0, 0]
    labels = {
        "zero layers": "zero-layer\nmodel",
        "direct path": "one layer,\ndirect path",
        "whole, mean": "one layer, mean\nover contexts",
    }
    for i, kind in enumerate(labels):
        seed_column(ax, i, data.path_kl.sel(kind=kind), DEPTH_COLOURS[min(i, 1)])
    ax.set_xticks(range(3), labels.values())
    ax.set(ylabel="KL from the bigram table, nats", xlim=(-0.5, 2.5))
    ax.set_ylim(0, 1.15 * float(data.path_kl.max()))
    sample_note(figure, f"dots: {data.path_kl.sizes['seed']} seeds; bars: mean, 95 % interval")
    return figure
