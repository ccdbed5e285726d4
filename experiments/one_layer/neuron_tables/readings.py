"""Neurons as a memory, read: keys, values, and the rate at which values come next."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    letter_panels,
    new_figure,
    sample_note,
)
from circuitax.records.sample import Sample, mean_of, members_where

SHOWN = 5  # tokens of a list
BARS = (("fired", 0.35, ORANGE, "where it fires"), ("everywhere", 0.7, GREY, "everywhere"))


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


def rises(data: xr.Dataset) -> dict[str, Sample]:
    """Keys shared and values that come true, after training less before."""
    alive = members_where(data)
    shared = (alive.shared - alive.shared_at_init).isel(layer=0).mean("unit") / alive.chance
    truer = _truer(alive, "") - _truer(alive, "_at_init")
    return {"neuron-keys-rise": mean_of(shared), "neuron-values-rise": mean_of(truer)}


def _truer(alive: xr.Dataset, when: str) -> xr.DataArray:
    """Share of units whose values come next more often where they fire; a tie counts half."""
    fired, everywhere = alive[f"fired{when}"], alive[f"everywhere{when}"]
    return ((fired > everywhere) + 0.5 * (fired == everywhere)).mean(("layer", "unit"))


def units(data: xr.Dataset) -> Figure:
    """One row for each unit: three lists of tokens, and two bars."""
    first = data.isel(member=0)
    n_layers, n_units = first.sizes["layer"], first.sizes["place"]
    n_rows = n_layers * n_units
    figure, axes = new_figure(
        1, 2, height=0.5 + 0.2 * (n_rows + n_layers), width_ratios=[5.2, 1], sharey=True
    )
    table, bars = axes[0]
    names = [visible(str(name), 6) for name in data.token.values]
    row = 0.0
    for layer in range(n_layers):
        table.text(0, row + 0.6, f"layer {layer}", va="center", fontsize=6.5, weight="bold")
        row += 1
        for place in range(n_units):
            unit = int(first.heaviest[layer, place])
            table.text(0.45, row + 0.5, f"{unit}", va="center", ha="right", fontsize=6, color=GREY)
            for column, name in enumerate(("listed_keys", "listed_fires_on", "listed_values")):
                tokens = first[name].values[layer, place, :SHOWN]
                _list(table, 0.6 + 5.6 * column, row, [names[int(t)] for t in tokens])
            at = first.isel(layer=layer, unit=unit)
            for name, below, colour, label in BARS:
                label = label if row == 1 else ""
                bars.barh(row + below, 100 * at[name], 0.35, color=colour, label=label)
            row += 1
    table.set(xlim=(0, 17.2), ylim=(row, 0), yticks=[])
    titles = ("reads (weights)", "fires on (text)", "raises (weights)")
    table.set_xticks([0.6 + 5.6 * i + 2.5 for i in range(3)], titles)
    table.tick_params(length=0, labeltop=True, labelbottom=False)
    for side in table.spines.values():
        side.set_visible(False)
    bars.tick_params(left=False)
    bars.set_xlabel("next tokens that\nit raises, %")
    bars.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.2)
    sample_note(figure, f"first of {data.sizes['member']} seeds; �: part of a letter")
    return figure


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


def _list(ax: Axes, x: float, row: float, tokens: list[str]) -> None:
    how: dict[str, Any] = {"va": "center", "fontsize": 6, "family": "monospace"}
    for i, token in enumerate(tokens):
        ax.text(x + 1.07 * i, row + 0.5, token, parse_math=False, **how)
