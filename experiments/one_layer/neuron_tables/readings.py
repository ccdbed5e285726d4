"""Neurons as a memory, read: keys, values, and the rate at which values come next."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, mean_of


def lift(data: xr.Dataset, when: str = "") -> Sample:
    """Share of a unit's values among next tokens where it fires, over that everywhere.

    The median over the units of a layer, of the layer with the least: a mean could be carried by a
    few units. One whose values never come counts as no gain. ``when="_at_init"`` before training.
    """
    alive = members_where(data)
    fired, everywhere = alive[f"fired{when}"], alive[f"everywhere{when}"]
    gain = (fired / everywhere).where(everywhere > 0, 1)
    return mean_of(gain.median("unit").min("layer"))


def shared_keys(data: xr.Dataset) -> Sample:
    """Of the tokens a first-layer unit fires on, the share among its keys, over chance."""
    alive = members_where(data)
    return mean_of(alive.shared.isel(layer=0).mean("unit") / alive.chance)


def come_true(data: xr.Dataset) -> Figure:
    """Every unit of every seed: share of its values among next tokens, firing against not."""
    alive = members_where(data)
    figure, axes = new_figure(1, 2, height=2.9, sharex=True, sharey=True)
    for ax, when, title in zip(
        axes[0], ("_at_init", ""), ("before training", "after"), strict=True
    ):
        _scatter(ax, alive, when)
        fired, everywhere = (alive[f"{name}{when}"].values for name in ("fired", "everywhere"))
        above = np.mean((fired > everywhere) + 0.5 * (fired == everywhere))
        ax.set(title=f"{title}: {100 * above:.0f} % above the line", xlabel="everywhere, %")
    axes[0, 0].set_ylabel("its ten values among next tokens\nwhere the unit fires, %")
    axes[0, 1].legend(loc="lower right", markerscale=3)
    letter_panels(axes[0])
    n = alive.fired.size
    sample_note(figure, f"dots: {n:,} units of {alive.sizes['member']} seeds; a tie counts half")
    return figure


def _scatter(ax: Axes, data: xr.Dataset, when: str) -> None:
    floor = 0.03  # per cent: shares of none are drawn here
    for layer, colour in zip(range(data.sizes["layer"]), (BLUE, ORANGE), strict=False):
        one = data.isel(layer=layer)
        x, y = (
            np.maximum(100 * one[f"{name}{when}"].values.ravel(), floor)
            for name in ("everywhere", "fired")
        )
        ax.scatter(x, y, s=4, color=colour, alpha=0.45, linewidths=0, label=f"layer {layer}")
    ax.plot([floor, 100], [floor, 100], color=BLACK, linewidth=0.7)
    ax.set(xscale="log", yscale="log", xlim=(floor * 0.8, 100), ylim=(floor * 0.8, 100))
    ax.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.set_yticks([floor, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    ax.minorticks_off()
