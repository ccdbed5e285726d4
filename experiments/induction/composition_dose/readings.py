"""Doses of composition: delays of the phase change, what forms in the end, and the figure."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    mean_curve,
    reference_line,
    zero_line,
)
from circuitax.figures.palette import BLACK, GREY, KIND_COLOURS
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import NotRun, Sample, mean_of, share_of
from experiments.induction.shared.carried import LOOK, shares_of_fall
from experiments.induction.shared.carried import unclosed as unclosed
from experiments.induction.shared.head_roles import PREFIX_SCORE
from experiments.induction.shared.phase_change import JUMP_WINDOW, falls_within

COLOURS = dict(zip(("Q", "K", "V", "turned"), (*KIND_COLOURS, GREY), strict=True))
NAMES = {"Q": "Q-composition", "K": "K-composition", "V": "V-composition", "turned": "K, turned"}


def delay(data: xr.Dataset, kind: str, dose: float) -> Sample:
    """Steps by which a dose postpones the phase change, seed by seed; see `dates`."""
    return mean_of(dates(data, kind, dose) - dates(data, kind, 0.0))


def share_formed(data: xr.Dataset, kind: str, dose: float) -> Sample:
    """Share of models with a prefix-matching head at the end of training."""
    return share_of(_cell(data, kind, dose).prefix.isel(step=-1) >= PREFIX_SCORE)


def score_lost(data: xr.Dataset, kind: str, dose: float) -> Sample:
    """In-context score at the end with a dose less without, nats; above 0 context helps less."""
    with_it, without = (_cell(data, kind, d).in_context.isel(step=-1) for d in (dose, 0.0))
    return mean_of(with_it - without)


def detour(data: xr.Dataset, kind: str, dose: float, composition: str) -> Sample:
    """Excess of one kind of composition at the end of training at a dose of another."""
    return mean_of(_cell(data, kind, dose).excess.sel(composition=composition).isel(step=-1))


def carried(data: xr.Dataset, weight: str, dose: float) -> Sample:
    """Share of the fall of the loss, where the in-context score falls most, by one weight."""
    members = _cell(data, "K", dose)
    falls = falls_within(members.in_context, JUMP_WINDOW)
    start = falls.step[falls.argmax("step")]
    end = start + JUMP_WINDOW * float(data.step[-1] - data.step[0])
    shares = shares_of_fall(members, start, np.minimum(end, float(data.step[-1])))
    return mean_of(shares.sel(weight=weight))


def on_text(data: xr.Dataset, name: str, cell: str) -> Sample:
    """A number of the end of training on text, mean over seeds of a kind and dose."""
    if cell not in data.cell:
        raise NotRun("this run has other rewards")
    return mean_of(_on_text(data, name).isel(text_step=-1).sel(cell=cell))


def more_on_text(data: xr.Dataset, name: str, cell: str) -> Sample:
    """The same less that without a reward, seed by seed."""
    end = _on_text(data, name).isel(text_step=-1)
    return mean_of(end.sel(cell=cell) - end.sel(cell="K 0"))


def dates(data: xr.Dataset, kind: str, dose: float) -> xr.DataArray:
    """The step at which a model has half of the mean final in-context score without a dose.

    The last step stands for one that never has it.
    """
    half = float(_cell(data, kind, 0.0).in_context.isel(step=-1).mean()) / 2
    there = _cell(data, kind, dose).in_context <= half
    last = there.step[-1]
    return there.step[there.argmax("step")].where(there.any("step"), last)


def _cell(data: xr.Dataset, kind: str, dose: float) -> xr.Dataset:
    """One kind and dose, of the members that live at every dose, so that pairs stay pairs."""
    if dose not in data.dose:
        raise NotRun("this run has other doses")
    alive = data.alive.all(("kind", "dose"))
    return members_where(data.sel(kind=kind, dose=dose, drop=True), alive)


def _on_text(data: xr.Dataset, name: str) -> xr.DataArray:
    """A curve on text, of the members that live in every cell."""
    return members_where(data[f"text_{name}"], data.text_alive.all("cell"))


def _looks(data: xr.Dataset) -> Iterator[tuple[float, dict[str, Any]]]:
    """Every dose of K-composition and its look: black without one, else the darker the larger."""
    for dose, shade in zip(data.dose.values, np.linspace(0.3, 1, data.sizes["dose"]), strict=True):
        colour, alpha = (COLOURS["K"], shade) if dose else (BLACK, 1.0)
        label = f"dose {dose:g}".replace("-", "−")
        yield dose, {"colour": colour, "label": label, "alpha": alpha}


def doses(data: xr.Dataset) -> Figure:
    """In-context score over training at every dose of K-composition, and delays of every kind."""
    figure, axes = new_figure(1, 3, height=2.4)
    for dose, look in _looks(data):
        curve = _cell(data, "K", dose).in_context.transpose("step", "member")
        mean_curve(axes[0, 0], data.step, curve, **look)
    axes[0, 0].set(xlabel="step", ylabel="in-context score, nats", title="price on K-composition")
    axes[0, 0].set_ylim(top=1.4)
    axes[0, 0].legend(loc="upper center", ncols=2)
    others = [float(dose) for dose in data.dose.values if dose]
    for place, (kind, colour) in enumerate(COLOURS.items()):
        x = np.arange(len(others)) + 0.15 * (place - 1.5)
        for ax, read in ((axes[0, 1], delay), (axes[0, 2], score_lost)):
            estimates = [read(data, kind, dose).estimate() for dose in others]
            interval_bars(ax, x, estimates, colour=colour, fmt="o", label=NAMES[kind])
    for ax, words in ((axes[0, 1], "delay, steps"), (axes[0, 2], "in-context score lost, nats")):
        ax.set_xticks(range(len(others)), [f"{dose:g}".replace("-", "−") for dose in others])
        ax.set(xlabel="dose, nats", ylabel=words)
        zero_line(ax)
    legend_above(figure, axes[0, 1], columns=4)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def weights(data: xr.Dataset) -> Figure:
    """Shares of each weight in the fall of the loss, one mark for each dose of K-composition."""
    figure, axes = new_figure(1, 1, height=2.6)
    ax = axes[0, 0]
    for place, (dose, look) in enumerate(_looks(data)):
        estimates = [carried(data, weight, dose).estimate() for weight in LOOK]
        x = np.arange(len(LOOK)) + 0.15 * (place - (data.sizes["dose"] - 1) / 2)
        interval_bars(ax, x, estimates, fmt="o", **look)
    ax.set_xticks(range(len(LOOK)), list(LOOK))
    ax.set_ylabel("share of the fall")
    zero_line(ax)
    legend_above(figure, ax, columns=4)
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def text(data: xr.Dataset) -> Figure:
    """Prefix matching, K-composition, and loss on repeated pairs, over training on text."""
    figure, axes = new_figure(1, 3, height=2.4)
    names = {
        "prefix": "prefix matching",
        "K": "excess K-composition",
        "loss_repeated": "loss on pairs, nats",
    }
    shades = np.linspace(1.0, 0.4, data.sizes["cell"])
    for ax, (name, label) in zip(axes[0], names.items(), strict=True):
        for cell, shade in zip(data.cell.values, shades, strict=True):
            kind, dose = cell.split()
            curve = _on_text(data, name).sel(cell=cell).transpose("text_step", "text_member")
            colour = BLACK if dose == "0" else COLOURS[kind]
            words = "no reward" if dose == "0" else f"{NAMES[kind]}, {dose[1:]}"
            mean_curve(ax, data.tokens / 1e6, curve, colour, label=words, each=True, alpha=shade)
        ax.set(xlabel="tokens, millions", ylabel=label)
    axes[0, 0].set_ylim(0, 0.5)
    axes[0, 2].set_ylim(top=4)
    reference_line(axes[0, 0], y=data.text_chance, label="even attention")
    legend_above(figure, axes[0, 0], columns=5)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['text_member']} seeds; thin: each")
    return figure
