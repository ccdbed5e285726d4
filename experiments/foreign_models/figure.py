"""Printed numbers beside measured ones, and three mistakes of write-ups from both sides.

agreement  Every printed number and every reference number against ours, by model. Refuted by a
           mark off the diagonal.
mistakes   Left: what the paths of each text leave of its logits, over the right norm scale and as
           published; refuted if the right ones are not at rounding. Middle: zero ablation on the
           weights as they are, and with the value bias folded; right: the loss without neurons of
           the file's function and of its centred twin. Refuted if the printed crosses lie on the
           other bars.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, ORANGE, SKY
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.record import Record
from experiments.foreign_models.sources import MODELS, PRINTED, REFERENCE

NAMES = {
    "palindrome": "palindrome",
    "unique": "first unique",
    "sign": "running sign",
    "bracket": "brackets",
    "copies": "copies",
}
MARKS = "os^vD"
HEADS = ("0.0", "0.1", "1.0", "1.1")


@styled
def draw(record: Record) -> dict[str, Figure]:
    """Agreement where any model was at hand, mistakes where all that they need was."""
    data, at_hand = record.data, record.notes["models"]
    figures = {"agreement": agreement(data) if at_hand else nothing()}
    if {"palindrome", "unique", "sign"} <= set(at_hand):
        figures["mistakes"] = mistakes(data)
    return figures


def nothing() -> Figure:
    """What a run without weights draws."""
    figure, axes = new_figure(height=1.3)
    ax = axes[0, 0]
    ax.set_axis_off()
    text = "No weights were given, so that nothing was measured.\nNeeded, any of:\n" + "\n".join(
        f"{name}.safetensors" for name in MODELS.values()
    )
    ax.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def agreement(data: xr.Dataset) -> Figure:
    """Printed against measured, on an axis that is linear near zero."""
    figure, axes = new_figure(1, 2, height=2.6)
    for ax, tables, title in zip(
        axes[0],
        (PRINTED, REFERENCE),
        ("printed by the authors", "independent NumPy pass"),
        strict=True,
    ):
        for i, (task, name) in enumerate(NAMES.items()):
            pairs = [
                np.stack([np.ravel(np.array(table, float)), np.ravel(data[key].values)])
                for key, table in tables.items()
                if key in data and key.startswith(f"{task}-")
            ]
            if pairs:
                x, y = np.concatenate(pairs, axis=1)
                label = f"{name} ({x.size})"
                ax.plot(x, y, MARKS[i], color=COLOURS[i], markersize=3, alpha=0.8, label=label)
        ends = np.array(ax.get_xlim())
        ax.plot(ends, ends, color=BLACK, linewidth=0.6, zorder=0)
        for set_scale in (ax.set_xscale, ax.set_yscale):
            set_scale("symlog", linthresh=0.1)
        ax.set(xlabel=f"{title}", ylabel="measured here", xlim=ends, ylim=ends)
        ax.legend(title="model (numbers)", fontsize="x-small")
    letter_panels(axes[0])
    return figure


def mistakes(data: xr.Dataset) -> Figure:
    """A wrong norm scale, a value bias not folded, and centring without a norm."""
    figure, axes = new_figure(1, 3, height=2.2, width_ratios=(1.2, 1.1, 1))
    _misses(axes[0, 0], data)
    printed = np.array(PRINTED["palindrome-zero-ablation"])
    _pairs(
        axes[0, 1],
        HEADS,
        data["palindrome-zero-unfolded"].values,
        data["palindrome-zero-ablation"].values,
        printed,
    )
    axes[0, 1].set(xlabel="head at zero", ylabel="lead of the right answer, logits")
    axes[0, 1].legend(
        ["printed", "weights as they are", "b_V folded"], fontsize="x-small", loc="upper left"
    )
    _pairs(
        axes[0, 2],
        ("all neurons",),
        data["sign-silenced"].values[:1],
        data["sign-silenced-centred"].values[:1],
        np.array(PRINTED["sign-silenced-centred"])[:1],
    )
    fit = (data["sign-fit"].values[0], data["sign-fit-centred"].values[0])
    axes[0, 2].bar([-1.2, -0.8], fit, 0.4, color=[ORANGE, SKY])
    axes[0, 2].plot([-1.2], PRINTED["sign-fit"][:1], "x", color=BLACK)
    axes[0, 2].set_xticks([-1, 0], ["none", "all"])
    axes[0, 2].set(xlabel="neurons at zero", ylabel="loss, nats")
    axes[0, 2].legend(
        ["printed", "the file's function", "centred"], fontsize="x-small", loc="upper left"
    )
    letter_panels(axes[0])
    return figure


def _misses(ax: Axes, data: xr.Dataset) -> None:
    wrong, right = data["unique-miss-of-each"].values, data["unique-remainder-of-each"].values
    bins = np.logspace(-15, 3, 73)
    for values, colour, label in (
        (right, BLUE, "own norm scale"),
        (wrong, ORANGE, "layer 0's, as published"),
    ):
        ax.hist(np.maximum(values, 1e-15), bins, color=colour, label=label)
    ax.set_xscale("log")
    ax.set(
        xlabel="largest logit that 16 paths miss",
        ylabel=f"texts of {wrong.size}",
    )
    ax.legend(title="layer 1 reads over", fontsize="x-small", loc="upper center")


def _pairs(
    ax: Axes,
    names: tuple[str, ...],
    left: np.ndarray,
    right: np.ndarray,
    printed: np.ndarray,
) -> None:
    """Two bars each, and the printed number as a cross on the one that it agrees with."""
    x = np.arange(len(names))
    nearer = np.abs(left - printed) < np.abs(right - printed)
    ax.plot(x + np.where(nearer, -0.2, 0.2), printed, "x", color=BLACK, zorder=3)
    ax.bar(x - 0.2, left, 0.4, color=ORANGE)
    ax.bar(x + 0.2, right, 0.4, color=SKY)
    ax.set_xticks(x, names)
