"""Doses of composition: delays of the phase change, what forms in the end, and the figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, legend_above, mean_curve, zero_line
from circuitax.figures.palette import BLACK, GREY, KIND_COLOURS
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import NotRun, Sample, mean_of, share_of

COLOURS = dict(zip(("Q", "K", "V", "turned"), (*KIND_COLOURS, GREY), strict=True))
NAMES = {"Q": "Q-composition", "K": "K-composition", "V": "V-composition", "turned": "K, turned"}
# A head with a prefix-matching score from here on matches prefixes.
PREFIX_SCORE = 0.4


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


def doses(data: xr.Dataset) -> Figure:
    """In-context score over training at every dose of K-composition, and delays of every kind."""
    figure, axes = new_figure(1, 3, height=2.4)
    shades = np.linspace(0.25, 1.0, data.sizes["dose"])
    for shade, dose in zip(shades, data.dose.values, strict=True):
        curve = _cell(data, "K", dose).in_context.transpose("step", "member")
        colour = BLACK if dose == 0 else COLOURS["K"]
        mean_curve(
            axes[0, 0],
            data.step,
            curve,
            colour,
            label=f"dose {dose:g}".replace("-", "−"),
            alpha=shade,
        )
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
