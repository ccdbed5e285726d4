"""The phase change in which induction heads form: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLACK, DEPTH_COLOURS, LAYER_COLOURS
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, difference_of, mean_of, resampled, share_of
from experiments.induction.shared.carried import carried_figure, shares_of_fall
from experiments.induction.shared.carried import unclosed as unclosed
from experiments.induction.shared.phase_change import (
    JUMP_WINDOW,
    PRINTED_WINDOW,
    SMALL_WINDOW,
    change_through,
    falls_within,
    faster_than_beside,
    has_changed,
    jump_share,
    last_score,
    most_beside,
)
from experiments.induction.shared.trajectories import turning

# A loss has a bump if it falls by this much more in a sixth of training than in others; a bag of
# the words seen so far makes none.
BUMP_NATS = 0.3
# Of a phase change: a sixth of training is wide enough to hold one time of all seeds.
MIDDLE = (1 / 4, 3 / 4)
CURVES = {
    "loss": "loss, nats per token",
    "in_context": "in-context score, nats",
    "best_prefix": "prefix matching, best head",
    "best_previous": "previous token, best head",
}
# Colour and line of each arm.
ARMS = {
    "1 layer": (DEPTH_COLOURS[1], "-"),
    "1 layer, smeared": (BLACK, "--"),
    "2 layers": (DEPTH_COLOURS[2], "-"),
    "2 layers, smeared": (BLACK, ":"),
}


def share_with_head(data: xr.Dataset, arm: str) -> Sample:
    """Share of the models of an arm with a prefix-matching head at the end of training."""
    return share_of(_arm(data, arm).best_prefix.isel(step=-1) >= data.attrs["prefix_score"])


def share_changed(data: xr.Dataset, arm: str) -> Sample:
    """Share of the models of an arm whose in-context score jumps."""
    return share_of(has_changed(_arm(data, arm), last_score(_arm(data, "2 layers"))))


def share_in_window(data: xr.Dataset, arm: str) -> Sample:
    """Lesser part of a model's final in-context score that it gains in a quarter and a fifth."""
    members = _arm(data, arm)
    wide, narrow = (jump_share(members, window) for window in (PRINTED_WINDOW, SMALL_WINDOW))
    return mean_of(wide.where(wide < narrow, narrow))


def lacked_by_one_layer(data: xr.Dataset) -> Sample:
    """In-context score that two layers have and one layer lacks, over that of two layers."""
    one, two = (_arm(data, arm) for arm in ("1 layer", "2 layers"))
    return difference_of(*(end.in_context.isel(step=-1) / last_score(two) for end in (one, two)))


def share_with_bump(data: xr.Dataset, arm: str) -> Sample:
    """Share of models whose loss has a bump where their in-context score jumps, and no other.

    It falls fastest against the sixths on both sides in one that begins within half of one of the
    jump's, and speeds up neither before nor after that.
    """
    members = _arm(data, arm)
    excess = faster_than_beside(members.loss)
    way = excess.step[excess.argmax("step")] - members.jump_start
    near = np.abs(way) <= JUMP_WINDOW / 2 * float(members.step[-1] - members.step[0])
    rest = most_beside(members.loss, members.jump_start, members.jump_end)
    return share_of((excess.max("step") >= BUMP_NATS) & near & (rest < BUMP_NATS))


def share_together(data: xr.Dataset) -> Sample:
    """Share of two-layer models in whose phase change prefix matching rises.

    It is half way in the middle half, and makes at least half of its rise in the whole.
    """
    members = _arm(data, "2 layers")
    length = members.jump_end - members.jump_start
    place = (members.best_prefix_middle - members.jump_start) / length
    within = change_through(members, members.best_prefix)
    rise = members.best_prefix.isel(step=-1) - members.best_prefix.isel(step=0)
    middle = (place >= MIDDLE[0]) & (place <= MIDDLE[1]) & (rise > 0) & (within >= rise / 2)
    return share_of(middle & has_changed(members, last_score(members)))


def earlier_when_smeared(data: xr.Dataset) -> Sample:
    """Steps to half of the in-context gain of two layers, with smeared keys less without."""
    smeared, plain = (_arm(data, arm) for arm in ("2 layers, smeared", "2 layers"))
    return difference_of(smeared.in_context_middle, plain.in_context_middle)


def steepening(data: xr.Dataset, arm: str) -> Sample:
    """Mean change of a model's slope of the loss by ln(token index) through its phase change."""
    members = _arm(data, arm)
    return mean_of(change_through(members, _slopes(members)))


def most_steepened(data: xr.Dataset, arm: str) -> Sample:
    """Mean change of a model's slope in the sixth of training in which that slope falls most."""
    return mean_of(-falls_within(_slopes(_arm(data, arm)), JUMP_WINDOW).max("step"))


def turn(data: xr.Dataset, arm: str) -> Sample:
    """Mean angle between a trajectory's way to a phase change and its way on, in degrees.

    One layer has none of its own: it is read where two layers of the same texts change.
    """
    two = data.sel(arm="2 layers", drop=True)
    chosen = two.alive & data.alive.sel(arm=arm, drop=True)
    members = members_where(data.sel(arm=arm, drop=True), chosen)
    changing = members_where(two, chosen)
    return mean_of(turning(members.trajectory, changing.jump_start, changing.jump_end))


def lost_without(data: xr.Dataset, group: str) -> Sample:
    """Share of the in-context score of two layers that is lost without a group of heads."""
    end = _arm(data, "2 layers").isel(step=-1)
    left = end.ablated_group.sel(ablation="patterns held", group=group)
    return mean_of(1 - left / end.in_context)


def pairs_alike(data: xr.Dataset, with_change: str) -> Sample:
    """Least over greatest score of kinds of model, at the pair of positions where it is least.

    ``min over pairs of (min over kinds of s) / (max over kinds of s)``, ``s`` the mean score at the
    end over the models of a kind. Early positions are those before any repeat, late ones those by
    which every text repeats.
    """

    def scores(arm: str) -> np.ndarray:
        members = _arm(data, arm)
        losses = members.loss_by_position.isel(step=-1).drop_vars("index")
        early = losses.isel(position=slice(0, int(members.first_repeat) - 1))
        late = losses.isel(position=slice(int(members.every_text_repeats), None))
        pairs = early.rename(position="early") - late.rename(position="late")
        return pairs.transpose("member", ...).values

    found = [scores(arm) for arm in (with_change, "1 layer, smeared", "2 layers, smeared")]

    def alike(*chosen: np.ndarray) -> float:
        means = [score[i].mean(axis=0) for score, i in zip(found, chosen, strict=True)]
        return float((np.min(means, axis=0) / np.max(means, axis=0)).min())

    return resampled(alike, *(len(score) for score in found))


def carried(data: xr.Dataset, weight: str) -> Sample:
    """Share of the fall of the loss through the phase change that one kind of weights carried."""
    return mean_of(_carried(data).sel(weight=weight))


def _carried(data: xr.Dataset) -> xr.DataArray:
    """Shares of the fall through the phase change of two layers, ``[member, weight]``."""
    members = _arm(data, "2 layers")
    return shares_of_fall(members, members.jump_start, members.jump_end)


def _arm(data: xr.Dataset, arm: str) -> xr.Dataset:
    """The models of one arm whose training stayed finite."""
    return members_where(data.sel(arm=arm))


def _slopes(members: xr.Dataset) -> xr.DataArray:
    """`circuits.losses.loss_slope` where every text repeats, in nats, ``[step, member]``."""
    at = int(members.every_text_repeats) - 1
    index, place = np.log(members["index"].values), np.arange(members.sizes["position"])
    near = (np.abs(index - index[at]) <= np.log(2) / 2) | (np.abs(place - at) <= 1)
    losses = members.loss_by_position.isel(position=near).transpose("position", "step", "member")
    lines = np.polyfit(index[near], losses.values.reshape(near.sum(), -1), 1)[0]
    return losses.isel(position=0, drop=True).copy(data=lines.reshape(losses.shape[1:]))


def training(data: xr.Dataset) -> Figure:
    """Four curves of four kinds of model: means over seeds, their 95 % intervals, and each seed."""
    figure, axes = new_figure(2, 2, height=4.2, sharex=True)
    for ax, (name, label) in zip(axes.flat, CURVES.items(), strict=True):
        for arm, (colour, line) in ARMS.items():
            curve = _arm(data, arm)[name].transpose("step", "member")
            mean_curve(ax, curve.step, curve, colour, label=arm, each=True, linestyle=line)
        ax.set(ylabel=label, xlim=(0, float(data.step[-1])))
    chance = reference_line(axes[1, 0], y=data.chance, label="uniform attention")
    axes[1, 0].legend(handles=[chance], loc="upper left")
    for ax in axes[1]:
        ax.set(xlabel="training step", ylim=(0, 1))
    title = f"mean of {data.sizes['member']} seeds, 95 % interval; thin: each seed"
    legend_above(figure, axes[0, 0], columns=4, title=title, title_fontsize=7)
    letter_panels(axes.flat)
    return figure


def slope(data: xr.Dataset) -> Figure:
    """How steeply the loss falls along a text where every text repeats, over training."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    ax = axes[0, 0]
    for arm, (colour, line) in ARMS.items():
        curve = _slopes(_arm(data, arm)).transpose("step", "member")
        mean_curve(ax, curve.step, curve, colour, label=arm, linestyle=line)
    zero_line(ax)
    ax.set(xlabel="training step", ylabel="slope by ln(index), nats")
    ax.legend(fontsize=6)
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def ablation(data: xr.Dataset) -> Figure:
    """Effect of each head on the in-context score at the end, by its attention."""
    figure, axes = new_figure(1, 2, height=2.7, sharey=True)
    members = _arm(data, "2 layers")
    lost = 1 - members.ablated / members.in_context.isel(step=-1)
    prefix = members.prefix.isel(step=-1)
    for ax, kind in zip(axes[0], data.ablation.values, strict=True):
        for layer, (colour, mark) in enumerate(zip(LAYER_COLOURS, "^o", strict=False)):
            x = prefix.isel(layer=layer).values.ravel()
            y = lost.sel(ablation=kind).isel(layer=layer).values.ravel()
            dots = {"s": 12, "marker": mark, "color": colour, "alpha": 0.7, "linewidths": 0}
            ax.scatter(x, y, label=f"one head of layer {layer}", **dots)
        groups = 1 - members.ablated_group.sel(ablation=kind) / members.in_context.isel(step=-1)
        for group, line in zip(data.group.values, ("-", "--"), strict=True):
            how = {"color": BLACK, "linewidth": 0.9, "linestyle": line}
            ax.axhline(groups.sel(group=group).mean(), label=f"{group} together", **how)
        zero_line(ax)
        ax.set(title=f"{kind}", xlabel="prefix matching of the head", xlim=(-0.02, 1))
    axes[0, 0].set_ylabel("share of in-context score lost")
    legend_above(figure, axes[0, 0], columns=2)
    letter_panels(axes[0])
    sample_note(figure, f"marks: every head of {members.sizes['member']} seeds; lines: means")
    return figure


def weights(data: xr.Dataset) -> Figure:
    """Which weights carried the loss of two layers down, over training and in the phase change."""
    return carried_figure(_arm(data, "2 layers"), _carried(data))
