"""The pentagon network: what is read from the record, and its figures; no JAX.

S0 is "Some Structures in Transformer Architectures", the project's source note.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from circuitax.figures.marks import legend_above
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.sample import Sample, exactly

FEATURE_COLOURS = COLOURS[:5]


def network(data: xr.Dataset) -> dict[str, Sample]:
    """All numbers of the network: at magnitude one, over magnitudes, and of pairs."""
    features = np.eye(5)
    apart = data.pair_output[(data.second - data["first"]).isin([2, 3]).values]
    adjacent = np.concatenate([_pair(data, *pair).pair_output for pair in ((1, 2), (1, 5), (4, 5))])
    measured = {
        "pentagon-identity": np.abs(data.single.values - features).max(),
        "pentagon-interference": data["single_pre_activation"].values[features == 0].max(),
        "pentagon-erasure": _pair(data, 1, 3)["pair_pre_activation"].values[0, 0],
        "pentagon-threshold": _common(data.alive),
        "pentagon-half": _common(np.diagonal(data["half"])),
        "pentagon-clip-23": _common(data.clips.sel(feature=[2, 3])),
        "pentagon-clip-4": data.clips.sel(feature=4),
        "pentagon-invents-23": _common(data.invents.sel(feature=[2, 3])),
        "pentagon-invents-145": _common(data.invents.sel(feature=[1, 4, 5])),
        "pentagon-hallucination": _common(apart.max("output")),
        "pentagon-amplified": _common(np.sort(adjacent, axis=1)[:, 3:]),
        "pentagon-clipped-pairs": data.pair_clipped.any("neuron").sum(),
    }
    return {name: exactly(float(value)) for name, value in measured.items()}


def _pair(data: xr.Dataset, first: int, second: int) -> xr.Dataset:
    """The part of the data that belongs to one pair of features."""
    return data.isel(pair=((data["first"] == first) & (data.second == second)).values)


def _common(values: ArrayLike) -> float:
    """The common value of several numbers, or NaN if they differ."""
    numbers = np.asarray(values).ravel()
    return float(numbers[0]) if np.ptp(numbers) < 1e-9 else float("nan")


def pipeline(data: xr.Dataset) -> Figure:
    """S0 Figure 1 redrawn, for e_1 and for the pair e_1 + e_3."""
    directions = data.embedding.values
    pair = int(np.flatnonzero((data["first"] == 1) & (data["second"] == 3))[0])
    rows = [
        ("$x = e_1$", np.eye(5)[0], data.single.values[0]),
        ("$x = e_1 + e_3$", np.eye(5)[0] + np.eye(5)[2], data.pair_output.values[pair]),
    ]
    figure, axes = new_figure(2, 3, height=3.6, width_ratios=[1, 1.05, 1])
    for (title, x, output), (left, middle, right) in zip(rows, axes, strict=True):
        _bars(left, x, f"input {title}")
        _embedding(middle, directions, x)
        _bars(right, output, r"output $\hat{x}$")
        for k in np.flatnonzero((output > 1e-9) & (x == 0)):
            _note(right, "invented", int(k) + 1, output[k], 8, ORANGE)
        for k in np.flatnonzero((output <= 1e-9) & (x > 0)):
            _note(right, "erased", int(k) + 1, 0, 3, GREY)
    letter_panels(axes[:, 0])
    return figure


def response(data: xr.Dataset) -> Figure:
    """The output for a single feature of magnitude a, in one panel for each."""
    a = data.magnitude.values
    figure, axes = new_figure(1, 5, height=1.75, sharex=True, sharey=True)
    for k, ax in enumerate(axes[0]):
        curve = data.response.values[k]
        ax.plot(a, a, color=GREY, linestyle=":", linewidth=1, label="perfect recovery")
        ax.plot(a, curve[:, k], color=BLUE, label=r"own output $\hat{x}_k$")
        others = np.delete(curve, k, axis=1).max(axis=1)
        ax.plot(a, others, color=ORANGE, linestyle="--", label=r"greatest other output")
        ax.plot([1], [1], "o", color=BLACK, markersize=3, zorder=5, label="S0 Example 26")
        onset, clip = float(data.invents[k]), float(data.clips[k])
        note = f"invents\n$a > {onset:.3f}$"
        if np.isfinite(clip):
            note += f"\nclips\n$a > {clip:.4f}$"
        ax.text(0.06, 0.97, note, transform=ax.transAxes, va="top", fontsize=6.5)
        ax.set(title=f"feature {k + 1}", xlim=(0, a[-1]), ylim=(0, 4.1), xticks=[0, 1, 2, 3])
    axes[0, 0].set_ylabel("output")
    figure.supxlabel(r"magnitude $a$ of the input $a\,e_k$", fontsize=8)
    legend_above(figure, axes[0, 0], 4)
    return figure


def _bars(ax: Axes, values: np.ndarray, label: str) -> None:
    ax.bar(np.arange(1, 6), values, color=FEATURE_COLOURS, width=0.65)
    ax.set(xlabel="feature", ylabel=label, ylim=(0, 1.25), xticks=range(1, 6))


def _embedding(ax: Axes, directions: np.ndarray, x: np.ndarray) -> None:
    """The five directions in the plane; active ones in colour, and their sum in black."""
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(angle), np.sin(angle), color=GREY, linewidth=0.5, linestyle=":")
    for k, v in enumerate(directions):
        on = x[k] > 0
        _arrow(ax, v, FEATURE_COLOURS[k] if on else "#CCCCCC", 1.6 if on else 1.0)
        ax.annotate(f"$v_{k + 1}$", 1.2 * v, ha="center", va="center", fontsize=7)
    if np.count_nonzero(x) > 1:
        _arrow(ax, x @ directions, BLACK, 1.6)
    ax.set(aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.set(xlabel="$W_1 x$, neuron 1", ylabel="neuron 2")


def _arrow(ax: Axes, tip: np.ndarray, colour: str, width: float) -> None:
    shape = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    style = {**shape, "color": colour, "linewidth": width}
    ax.annotate("", xy=tuple(tip), xytext=(0, 0), arrowprops=style)


def _note(ax: Axes, text: str, x: float, y: float, up: float, colour: str) -> None:
    """A word above a bar, ``up`` points higher."""
    where: dict[str, Any] = {"xytext": (0, up), "textcoords": "offset points", "ha": "center"}
    ax.annotate(text, (x, y), color=colour, fontsize=7, **where)
