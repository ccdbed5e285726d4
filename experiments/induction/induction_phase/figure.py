"""Induction heads appear abruptly, with two layers or smeared keys, never with one plain layer."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, ORANGE, SEQUENTIAL, SKY
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.induction_phase.figure_circuits import ARMS, circuits
from experiments.induction.shared.phase_change import has_changed, last_score

CURVES = {
    "loss": "loss, nats per token",
    "in_context": "in-context score, nats",
    "best_prefix": "prefix matching, best head",
    "best_previous": "previous token, best head",
}
MARKS = {
    "in_context": ("in-context score", BLACK, "|"),
    "best_prefix": ("prefix matching", ORANGE, "o"),
    "best_previous": ("previous token", BLUE, "^"),
    "loss": ("loss", GREEN, "x"),
}


def training(record: Record) -> Figure:
    """Four curves of four kinds of model: means over seeds, their 95 % intervals, and each seed."""
    data = record.data
    figure, axes = new_figure(2, 2, height=4.2, sharex=True)
    for ax, (name, label) in zip(axes.flat, CURVES.items(), strict=True):
        for arm, (colour, line) in ARMS.items():
            curve = members_where(data.sel(arm=arm))[name].transpose("step", "member")
            mean_curve(ax, curve.step, curve, colour, label=arm, each=True, linestyle=line)
        ax.set(ylabel=label, xlim=(0, float(data.step[-1])))
    _looking_back(axes[1, 1], members_where(data.sel(arm="2 layers")))
    chance = reference_line(axes[1, 0], y=data.chance, label="uniform attention")
    axes[1, 0].legend(handles=[chance], loc="upper left")
    for ax in axes[1]:
        ax.set(xlabel="training step", ylim=(0, 1))
    n = data.sizes["member"]
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
        title=f"mean of {n} seeds, 95 % interval; thin: each seed",
        title_fontsize=7,
    )
    letter_panels(axes.flat)
    return figure


def _looking_back(ax: Axes, two: xr.Dataset) -> None:
    """The previous-token head of two layers, where tokens are new to their text and where not."""
    for name, label, line, height in (
        ("best_previous_new", "2 layers: new tokens", "dotted", 0.88),
        ("best_previous_again", "2 layers: repeated tokens", "dashdot", 0.1),
    ):
        curve = two[name].transpose("step", "member")
        mean_curve(ax, curve.step, curve, BLACK, label=label, linestyle=line, opacity=0.15)
        ax.text(0.98, height, label, transform=ax.transAxes, ha="right", va="center", fontsize=7)


def windows(record: Record) -> Figure:
    """Half-way step of each curve in each seed; bars mark the in-context score's steepest fall."""
    data = record.data
    chosen = ("2 layers", "1 layer, smeared")
    figure, axes = new_figure(1, 2, height=2.9, sharey=True)
    for ax, arm in zip(axes[0], chosen, strict=True):
        members = members_where(data.sel(arm=arm))
        order = members.isel(member=np.argsort(members.in_context_middle.values))
        rows = np.arange(1, order.sizes["member"] + 1)
        start, end = order.jump_start.values, order.jump_end.values
        ax.barh(
            rows,
            end - start,
            left=start,
            height=0.75,
            color=SKY,
            alpha=0.35,
            label="steepest sixth of in-context score",
        )
        inside = np.ones(rows.size, bool)
        for name, (label, colour, mark) in MARKS.items():
            # One smeared layer has no earlier layer for a previous-token head.
            if name == "best_previous" and arm != "2 layers":
                continue
            middle = order[f"{name}_middle"].values
            outside = (middle < start) | (middle > end)
            inside &= ~outside
            ring = {"s": 60, "facecolors": "none", "edgecolors": BLACK, "linewidths": 0.8}
            ax.scatter(middle[outside], rows[outside], **ring)
            ax.scatter(
                middle,
                rows,
                color=colour,
                marker=mark,
                s=14,
                linewidths=1,
                label=f"{label}, half way",
            )
        title = f"{arm}: all in the bar in {inside.sum()} of {rows.size} seeds"
        ax.set(title=title, xlabel="training step", xlim=(0, float(data.step[-1])))
    axes[0, 0].set_ylabel("seed, by time of change")
    legend_above(figure, axes[0, 0], columns=3)
    letter_panels(axes[0])
    return figure


def positions(record: Record) -> Figure:
    """Mean loss of each position over training; light is known, dark is chance."""
    data = record.data
    figure, axes = new_figure(1, 4, height=2.1, sharey=True)
    loss = data.loss_by_position
    top = float(loss.isel(step=0).mean())
    for ax, arm in zip(axes[0], ARMS, strict=True):
        values = (
            members_where(data.sel(arm=arm))
            .loss_by_position.mean("member")
            .transpose("position", "step")
        )
        image = ax.pcolormesh(
            data.step,
            np.arange(1, loss.sizes["position"] + 1),
            values,
            vmin=0,
            vmax=top,
            cmap=SEQUENTIAL + "_r",
            shading="nearest",
            rasterized=True,
        )
        ax.set(title=arm, xlabel="training step")
    axes[0, 0].set_ylabel("token predicted")
    figure.colorbar(image, ax=axes[0].tolist(), label="loss, nats", shrink=0.9, extend="max")
    letter_panels(axes[0])
    sample_note(figure, f"means of {data.sizes['member']} seeds")
    return figure


def slope(record: Record) -> Figure:
    """Loss by token index before the change and at the end; below, its fall over training."""
    data = record.data
    figure, axes = new_figure(2, 4, height=3.7, sharey="row", height_ratios=[1, 1.15])
    deepest = -float(mean_slope(data).isel(step=-1).min())
    changed = members_where(data.sel(arm="2 layers"))
    usual = last_score(changed)
    for column, arm in zip(axes.T, ARMS, strict=True):
        members = members_where(data.sel(arm=arm))
        # What does not change is read when two layers do.
        most = bool(has_changed(members, usual).mean() > 0.5)
        changes = members if most else changed
        start = float(changes.jump_start.mean())
        _loss_by_index(column[0], members, start)
        image = _fall_of_loss(column[1], members, deepest)
        column[1].axvline(start, color=ORANGE, linewidth=1)
        reference_line(column[0], x=data.every_text_repeats)
        reference_line(column[1], y=data.every_text_repeats)
        column[0].set(title=arm, xlabel="token index", xlim=(1, float(data["index"][-1])))
    axes[0, 0].set_ylabel("loss, nats")
    axes[0, 0].set_ylim(bottom=0)
    axes[1, 0].set_ylabel("token index")
    bar = figure.colorbar(image, ax=axes[1].tolist(), shrink=0.9, extend="min")
    bar.set_label("fall of the loss,\nnats per e-fold")
    n = changed.sizes["member"]
    legend_above(figure, axes[0, 0], columns=2, title=f"means of {n} seeds, 95 % intervals")
    letter_panels(axes.flat)
    return figure


def _loss_by_index(ax: Axes, members: xr.Dataset, start: float) -> None:
    for step, colour, label in (
        (start, ORANGE, "before the change (line below)"),
        (float(members.step[-1]), BLUE, "at the end"),
    ):
        loss = members.loss_by_position.sel(step=step, method="nearest")
        rows = loss.transpose("position", "member")
        mean_curve(ax, members.index, rows, colour, label=label)
    ax.set_xscale("log", base=2)
    ax.set_xticks(2 ** np.arange(1 + np.floor(np.log2(float(members["index"][-1])))))
    ax.xaxis.set_major_formatter("{x:.0f}")


def mean_slope(data: xr.Dataset) -> xr.DataArray:
    """The slope of the loss by token index, a mean over members where the record has each one's."""
    return data.slope.mean([axis for axis in data.slope.dims if axis == "member"])


def _fall_of_loss(ax: Axes, members: xr.Dataset, deepest: float) -> QuadMesh:
    values = mean_slope(members).transpose("position", "step")
    image = ax.pcolormesh(
        members.step,
        members.index,
        -values,
        vmin=0,
        vmax=deepest,
        cmap=SEQUENTIAL,
        shading="nearest",
        rasterized=True,
    )
    ax.set(xlabel="training step", ylim=(1, float(members.index[-1])))
    ax.set_yscale("log", base=2)
    ax.yaxis.set_major_formatter("{x:.0f}")
    return image


def ablation(record: Record) -> Figure:
    """Effect of each head on the in-context score at the end, by its attention."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.7, sharey=True)
    members = members_where(data.sel(arm="2 layers"))
    lost = 1 - members.ablated / members.in_context.isel(step=-1)
    prefix = members.prefix.isel(step=-1)
    for ax, kind in zip(axes[0], data.ablation.values, strict=True):
        for layer, (colour, mark) in enumerate(((BLUE, "^"), (ORANGE, "o"))):
            ax.scatter(
                prefix.isel(layer=layer).values.ravel(),
                lost.sel(ablation=kind).isel(layer=layer).values.ravel(),
                s=12,
                marker=mark,
                color=colour,
                alpha=0.7,
                linewidths=0,
                label=f"one head of layer {layer}",
            )
        groups = 1 - members.ablated_group.sel(ablation=kind) / members.in_context.isel(step=-1)
        for group, line in zip(data.group.values, ("-", "--"), strict=True):
            e = mean_estimate(groups.sel(group=group).values)
            ax.axhline(
                e.value, color=BLACK, linewidth=0.9, linestyle=line, label=f"{group} together"
            )
        zero_line(ax)
        ax.set(title=f"{kind}", xlabel="prefix matching of the head", xlim=(-0.02, 1))
    axes[0, 0].set_ylabel("share of in-context score lost")
    legend_above(figure, axes[0, 0], columns=2)
    letter_panels(axes[0])
    sample_note(figure, f"marks: every head of {members.sizes['member']} seeds; lines: means")
    return figure


FIGURES = (
    FigureSpec(
        "training",
        training,
        message="Loss, in-context score, prefix matching and previous-token score change together.",
        refuted="Refuted if the orange curves turn at different times, or a grey one reaches the "
        "final level of the others.",
        flagship=True,
    ),
    FigureSpec(
        "windows",
        windows,
        message="The heads form while the in-context score falls, not before or after.",
        caption="Titles count the seeds whose marks all lie in the bar; a ring is around each "
        "mark that does not.",
        refuted="Refuted if rings are more than the exception: in over a tenth of the seeds of a.",
    ),
    FigureSpec(
        "positions",
        positions,
        message="During the phase change the models learn to predict repeats at all positions at "
        "once.",
        refuted="Refuted if one plain layer gets as bright beyond the longest period.",
    ),
    FigureSpec(
        "slope",
        slope,
        message="Only after the phase change does the loss keep falling along a text until every "
        "text repeats.",
        caption="Above, before it (orange) a longer context soon stops helping; the dotted line "
        "is where the longest text repeats. Below, how steeply the loss falls with the index, all "
        "through training.",
        refuted="Refuted if the blue line of a falls as far as that of c, or a gets as bright "
        "below.",
    ),
    FigureSpec(
        "circuits",
        circuits,
        message="The circuit forms in the weights before the in-context score falls: its traces "
        "have risen by then (b). Training turns there by half a right angle, and so does that of "
        "one layer in the same steps (a, the plane of largest variance of single tokens' losses).",
        refuted="Refuted if the curves of b rise in the shaded stretch, or the paths of a have a "
        "corner where they are thick, and those of one layer have none.",
    ),
    FigureSpec(
        "ablation",
        ablation,
        message="Without the prefix-matching heads the in-context score vanishes; the outputs of "
        "the other heads are dispensable, though patterns depend on one of them.",
        refuted="Refuted if the solid line of a is low, or its dashed line above 0.",
    ),
)
