"""Ends of trainings of several lengths, with the power law through them."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from circuitax.figures.marks import interval_bars
from circuitax.records.estimate import mean_estimate
from experiments.one_layer.shared.measures_lengths import learning_laws, length_losses

BEYOND = 4  # times the longest training, up to which the law is drawn


def ends_by_length(ax: Axes, data: xr.Dataset, model: str, colour: str) -> None:
    """Last losses of one model by the length of training, and the mean of the laws of its seeds."""
    lengths, losses = data.length.values, length_losses(data, model)
    if not losses.size:
        return
    interval_bars(ax, lengths / 1e6, [mean_estimate(row) for row in losses], colour=colour, fmt="o")
    if laws := learning_laws(data, model):
        tokens = np.geomspace(lengths.min(), BEYOND * lengths.max(), 60)
        law = np.mean([law.at(tokens) for law in laws], axis=0)
        inside = tokens <= lengths.max()
        ax.plot(tokens[inside] / 1e6, law[inside], color=colour)
        ax.plot(tokens[~inside] / 1e6, law[~inside], color=colour, linestyle="--")


def length_axis(ax: Axes, data: xr.Dataset) -> None:
    """A logarithmic axis with one tick for each length, and beyond where a law is drawn."""
    ax.set(xlabel="tokens of a whole training, millions", xscale="log")
    lengths = data.length.values / 1e6
    beyond = lengths[0] * np.array([2, BEYOND]) if len(lengths) > 2 else []
    places = [*lengths[::-1], *beyond]
    ax.set_xticks(places, [f"{place:.2g}" for place in places])
    ax.minorticks_off()
