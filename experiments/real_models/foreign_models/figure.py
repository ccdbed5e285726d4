"""Printed numbers beside measured ones, and three mistakes of write-ups from both sides."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, ORANGE, SKY
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record
from experiments.real_models.foreign_models.sources import MODELS, PRINTED, REFERENCE

NAMES = {
    "palindrome": "palindrome",
    "unique": "first unique",
    "sign": "running sign",
    "bracket": "brackets",
    "copies": "copies",
}
MARKS = "os^vD"
HEADS = ("0.0", "0.1", "1.0", "1.1")


def _nothing() -> Figure:
    """The figure of a run without weights."""
    figure, axes = new_figure(height=1.3)
    ax = axes[0, 0]
    ax.set_axis_off()
    text = "No weights were given, so that nothing was measured.\nNeeded, any of:\n" + "\n".join(
        f"{name}.safetensors" for name in MODELS.values()
    )
    ax.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def agreement(record: Record) -> Figure:
    """Printed against measured, on an axis that is linear near zero."""
    if not record.notes["models"]:
        return _nothing()
    data = record.data
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
        n = sum(int(line.get_label().split("(")[1][:-1]) for line in ax.get_lines()[:-1])
        ax.set(
            xlabel=title,
            ylabel="measured here",
            xlim=ends,
            ylim=ends,
            title=f"{n} numbers: {title}",
        )
        ax.legend(title="model (numbers)", fontsize=6, title_fontsize=6)
    letter_panels(axes[0])
    return figure


def mistakes(record: Record) -> Figure:
    """A wrong norm scale, a value bias not folded, and centring without a norm."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.8)
    _misses(axes[0, 0], data)
    printed = np.array(PRINTED["palindrome-zero-ablation"])
    _pairs(
        axes[0, 1],
        HEADS,
        data["palindrome-zero-unfolded"].values,
        data["palindrome-zero-ablation"].values,
        printed,
    )
    axes[0, 1].set(
        xlabel="head at zero",
        ylabel="lead of the right answer, logits",
        title="Printed leads need\n$b_V$ folded into $b_O$",
    )
    _legend(axes[0, 1], "weights as they are", "$b_V$ folded")
    rows = ("sign-fit", "sign-silenced")
    _pairs(
        axes[0, 2],
        ("none", "all"),
        np.array([data[row].values[0] for row in rows]),
        np.array([data[f"{row}-centred"].values[0] for row in rows]),
        np.array([PRINTED["sign-fit"][0], PRINTED["sign-silenced-centred"][0]]),
    )
    axes[0, 2].set(
        xlabel="neurons at zero",
        ylabel="loss, nats",
        title="Printed losses are\nof two functions",
    )
    _legend(axes[0, 2], "the file's function", "centred as published")
    letter_panels(axes[0])
    return figure


def _misses(ax: Axes, data: xr.Dataset) -> None:
    wrong, right = data["unique-miss-of-each"].values, data["unique-remainder-of-each"].values
    bins = np.logspace(-15, 3, 73)
    for values, colour, label in (
        (right, BLUE, "own norm scale"),
        (wrong, ORANGE, "layer 0's, as published"),
    ):
        ax.hist(np.maximum(values, 1e-15), bins.tolist(), color=colour, label=label)
    ax.set_xscale("log")
    ax.set(
        xlabel="largest miss of all paths, logits",
        ylabel=f"texts of {wrong.size}",
        title="Over a wrong norm scale\npaths miss the logits",
    )
    ax.legend(title="layer 1 reads over", fontsize=6, loc="upper center")


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
    ax.bar(x + 0.2, right, 0.4, color=SKY, hatch="//", edgecolor="white", linewidth=0)
    ax.set_xticks(x, names)


def _legend(ax: Axes, left: str, right: str) -> None:
    """Names of the marks of `_pairs`, above the bars."""
    ax.legend(["printed", left, right], fontsize=6, loc="upper left")
    ax.set_ylim(0, 1.45 * ax.get_ylim()[1])


FIGURES = (
    FigureSpec(
        "agreement",
        agreement,
        message="Our measurements agree with the numbers of the authors and of an independent "
        "forward pass.",
        caption="Each number, by model.",
        refuted="Refuted by a mark off the diagonal.",
    ),
    FigureSpec(
        "mistakes",
        mistakes,
        message="A wrong norm scale, a value bias not folded, and centring without a norm explain "
        "the printed numbers.",
        refuted="Left: the residual of each text's logits after all paths, over the right norm "
        "scale and as published; refuted if the right ones are not at rounding. Middle: zero "
        "ablation on the weights as they are, and with the value bias folded; right: the loss "
        "without neurons of the file's function and of its centred twin. Refuted if the printed "
        "crosses lie on the other bars.",
        where=lambda record: {"palindrome", "unique", "sign"} <= set(record.notes["models"]),
    ),
)
