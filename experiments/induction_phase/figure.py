"""Induction heads appear abruptly, with two layers or smeared keys and never with one plain layer.

training   Loss, in-context score, prefix matching and previous-token score change together.
           Refuted if the orange curves bend at different times, or the grey ones bend at all.
windows    In each seed the heads form while the in-context score falls, not before or after.
           Refuted if markers lie outside the bars.
positions  The change teaches the models to predict repeats, at every position at once.
           Refuted if one plain layer gets dark beyond the longest period.
slope      Before the change (orange) a longer context soon stops helping; after it the loss falls
           on until every text repeats (dotted). Refuted if one plain layer gets as bright.
circuits   The circuit is in the weights before the in-context score falls: its traces have risen
           by then (b), and training hardly turns there (a, the plane of largest variance of single
           tokens' losses). Refuted if the curves of b rise in the shaded stretch, or the paths of a
           have a corner where they become thick.
ablation   Without the heads that match prefixes the in-context score is gone; what the others write
           is not missed, though patterns depend on one of them. Refuted if the solid line of a is
           low, or its dashed line above 0.
"""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SEQUENTIAL, SKY
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction_phase.measures import JUMP_NATS

ARMS = {
    "1 layer": (GREY, "-"),
    "1 layer, smeared": (BLUE, "--"),
    "2 layers": (ORANGE, "-"),
    "2 layers, smeared": (GREEN, "--"),
}
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


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figures of the experiment."""
    return {
        "training": training(record),
        "windows": windows(record),
        "positions": positions(record),
        "slope": slope(record),
        "circuits": circuits(record),
        "ablation": ablation(record),
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


def windows(record: Record) -> Figure:
    """When, in each seed, a curve was half way; the bar is where the in-context score fell most."""
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
        for name, (label, colour, mark) in MARKS.items():
            # One smeared layer has no earlier layer for a previous-token head.
            if name == "best_previous" and arm != "2 layers":
                continue
            ax.scatter(
                order[f"{name}_middle"],
                rows,
                color=colour,
                marker=mark,
                s=14,
                linewidths=1,
                label=f"{label}, half way",
            )
        ax.set(title=arm, xlabel="training step", xlim=(0, float(data.step[-1])))
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
    return figure


def slope(record: Record) -> Figure:
    """How fast the mean loss falls with the token's index, over training."""
    data = record.data
    figure, axes = new_figure(1, 4, height=2.2, sharey=True)
    deepest = -float(data.slope.isel(step=-1).mean("member").min())
    for ax, arm in zip(axes[0], ARMS, strict=True):
        members = members_where(data.sel(arm=arm))
        values = members.slope.mean("member").transpose("position", "step")
        image = ax.pcolormesh(
            data.step,
            data.index,
            -values,
            vmin=0,
            vmax=deepest,
            cmap=SEQUENTIAL,
            shading="nearest",
            rasterized=True,
        )
        reference_line(ax, y=data.every_text_repeats)
        if float(members.jump.mean()) >= JUMP_NATS:
            ax.axvline(float(members.jump_start.mean()), color=ORANGE, linewidth=1)
        ax.set(title=arm, xlabel="training step", ylim=(1, float(data.index[-1])))
    axes[0, 0].set_yscale("log", base=2)
    axes[0, 0].yaxis.set_major_formatter("{x:.0f}")
    axes[0, 0].set_ylabel("token index")
    bar = figure.colorbar(image, ax=axes[0].tolist(), shrink=0.9, extend="min")
    bar.set_label("fall of the loss,\nnats per e-fold of the index")
    letter_panels(axes[0])
    return figure


def circuits(record: Record) -> Figure:
    """Trajectories of training in the plane of two components, and traces of the circuit."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.9, width_ratios=(1.2, 1))
    plane, traces = axes[0]
    for arm, (colour, line) in ARMS.items():
        members = members_where(data.sel(arm=arm))
        path = members.trajectory.transpose("member", "step", "component").values
        for member in range(len(path)):
            plane.plot(*path[member].T, color=colour, linewidth=0.3, alpha=0.4)
            if float(members.jump[member]) >= JUMP_NATS:
                start, end = (float(members[f"jump_{edge}"][member]) for edge in ("start", "end"))
                inside = (data.step.values >= start) & (data.step.values <= end)
                plane.plot(*path[member][inside].T, color=colour, linewidth=1.2, alpha=0.6)
        plane.plot([], [], color=colour, linestyle=line, label=arm)
    plane.plot([], [], color=BLACK, linewidth=2, label="steepest sixth of the in-context score")
    first, second = 100 * data.explained.values
    plane.set(
        xlabel=f"first component ({first:.0f} % of the variance), nats",
        ylabel=f"second component ({second:.0f} %), nats",
        title="training in the plane of single tokens' losses",
    )
    two = members_where(data.sel(arm="2 layers"))
    shift = two.step - (two.jump_start + two.jump_end) / 2
    end = two.isel(step=-1, drop=True)
    writer, reader = (
        end.previous.isel(layer=0).argmax("head"),
        end.prefix.isel(layer=1).argmax("head"),
    )
    curves = (
        ("QK through K, of the pair", two.matching.isel(writer=writer, reader=reader), ORANGE),
        ("OV of the induction head", two.copying.isel(layer=1, head=reader), BLUE),
    )
    around = np.linspace(float(shift.min("step").max()), float(shift.max("step").min()), 60)
    for label, curve, colour in curves:
        rows = [
            np.interp(around, shift.isel(member=i), curve.isel(member=i))
            for i in range(two.sizes["member"])
        ]
        mean_curve(traces, around, np.stack(rows, axis=1), colour, label=label, each=True)
    half = float(two.jump_end[0] - two.jump_start[0]) / 2
    traces.axvspan(-half, half, color=SKY, alpha=0.25, linewidth=0)
    zero_line(traces)
    traces.set(
        xlabel="training step, from the middle of the change",
        ylabel="trace over absolute eigenvalues",
        title="the circuit's weights",
        ylim=(-0.2, 1.05),
    )
    traces.legend(loc="lower right")
    n = data.sizes["member"]
    title = f"{n} seeds an arm; right: mean and 95 % interval, thin: each seed"
    legend_above(figure, plane, columns=3, title=title, title_fontsize=7)
    letter_panels(axes[0])
    return figure


def ablation(record: Record) -> Figure:
    """What each head is worth to the in-context score at the end, by what it attends to."""
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
                label=f"one head of layer {layer + 1}",
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
    return figure
