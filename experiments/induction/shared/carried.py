"""Which weights' change carried a fall of the loss: readings of shares, and their panels."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    mean_curve,
    tilted_labels,
    zero_line,
)
from circuitax.figures.palette import GREY, LAYER_COLOURS
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import Sample, exactly, mean_of
from experiments.induction.shared.phase_change import at_step

# Colour and line: layers as everywhere, OV circuits dashed.
LOOK = {
    "QK, layer 1": (LAYER_COLOURS[1], "-"),
    "OV, layer 1": (LAYER_COLOURS[1], "--"),
    "QK, layer 0": (LAYER_COLOURS[0], "-"),
    "OV, layer 0": (LAYER_COLOURS[0], "--"),
    "W_E": (GREY, "-"),
    "W_U": (GREY, "--"),
    "W_pos": (GREY, ":"),
}


def unclosed(data: xr.Dataset) -> Sample:
    """Largest difference of the sum of all shares from the change of the loss, nats per token."""
    gap = np.abs(data.weight_share.sum("weight", skipna=False) - data.loss_change)
    return exactly(gap.max(), int(gap.count()))


def since_start(members: xr.Dataset) -> xr.DataArray:
    """Change of the loss since the first step by each weight, ``[step, member, weight]``."""
    return members.weight_share.cumsum("step").assign_coords(step=members.step)


def shares_of_fall(members: xr.Dataset, start: xr.DataArray, end: xr.DataArray) -> xr.DataArray:
    """Share of each weight in the fall between two steps of each member, ``[member, weight]``."""
    curves = since_start(members)
    fallen = at_step(curves, end) - at_step(curves, start)
    return fallen / fallen.sum("weight")


def carried_figure(members: xr.Dataset, shares: xr.DataArray) -> Figure:
    """Change of the loss by weight over training, and shares of a fall, ``[member, weight]``."""
    figure, axes = new_figure(1, 2, height=2.7)
    curves = since_start(members).transpose("weight", "step", "member")
    for place, (weight, (colour, line)) in enumerate(LOOK.items()):
        rows = curves.sel(weight=weight)
        mean_curve(axes[0, 0], rows.step, rows, colour, label=weight, linestyle=line)
        estimate = mean_of(shares.sel(weight=weight)).estimate()
        interval_bars(axes[0, 1], [place], [estimate], colour=colour, fmt="o")
    tilted_labels(axes[0, 1], list(LOOK))
    for ax in axes[0]:
        zero_line(ax)
    axes[0, 0].set(xlabel="training step", ylabel="change of the loss, nats per token")
    axes[0, 1].set_ylabel("share of the fall")
    legend_above(figure, axes[0, 0], columns=4)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {members.sizes['member']} seeds")
    return figure
