"""Features of each model beside its tokens and neurons: overlaps and dimensions in use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, ScalarFormatter

from circuitax.figures.marks import (
    interval_bars,
    mean_curve,
    reference_line,
    seed_dots,
    tilted_labels,
)
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.estimate import mean_of_finite
from circuitax.records.record import Record
from experiments.directions.text_superposition.levels import FEATURE

NAMES = {"ours": "our text model", "smollm2": "SmolLM2-135M"}
KINDS = {
    "tokens": (BLUE, "tokens"),
    "read": (ORANGE, "neurons read"),
    "write": (GREEN, "neurons write"),
}
_WIDE = 10.0  # ratio of largest to smallest number from which an axis is logarithmic


def features(record: Record) -> Figure:
    """Overlaps of features, and two numbers of them beside tokens and neurons.

    Each model has a row of panels.

    Args:
        record: One whose notes have features of one model at least.
    """
    data, notes = record.data, record.notes
    names = [name for name, stem in FEATURE.items() if f"{stem}s" in notes]
    figure, axes = new_figure(len(names), 3, width=PAGE, height=0.6 + 2.9 * len(names))
    for row, name in zip(axes, names, strict=True):
        left, middle, right = row
        _tail(left, data, name)
        _numbers(middle, data, name, "mean_square")
        _numbers(right, data, name, "dimensionality_sum")
        _bounds(middle, right, data, name, notes[f"{FEATURE[name]}s"]["dim"])
        middle.set(ylabel="mean square overlap / random")
        right.set(ylabel="Σ $D_i$ / random")
    for ax, title in zip(axes[0], ("pairs", "interference", "dimensions in use"), strict=True):
        ax.set_title(title)
    rows = [_said(data, notes[f"{FEATURE[name]}s"], name) for name in names]
    small = "Small dots: autoencoders, or layers; white: centred; bars: t interval 95 %"
    figure.supxlabel("\n".join([*rows, small]), fontsize=6)
    letter_panels(axes.ravel())
    headline(figure, _message(data, names))
    return figure


def _said(data: xr.Dataset, about: Mapping[str, Any], name: str) -> str:
    stem = FEATURE[name]
    dead = float(data[f"{stem}_dead"].mean())
    error = float((data[f"{stem}_error"] / data[f"{stem}_components_error"]).mean())
    alike, by_chance = (float(data[f"{stem}_{which}agreement"].mean()) for which in ("", "null_"))
    return (
        f"{NAMES[name]}: {about['seeds']} autoencoders of {about['width']} latents in "
        f"{about['dim']} dimensions, {100 * dead:.0f} % dead; {about['active']} on at a time "
        f"leave {error:.2f} of the error of as many principal components;\n"
        f"largest cosine with a feature of another autoencoder {alike:.2f} (mean), "
        f"of random directions {by_chance:.2f}"
    )


def _message(data: xr.Dataset, names: list[str]) -> str:
    found: list[str] = []
    for name in names:
        overlap, used = (
            float(np.nanmean(_over_random(data, name, "features", measured, True)))
            for measured in ("mean_square", "dimensionality_sum")
        )
        if found:
            found.append(f"those of {NAMES[name]} {overlap:.2f} and {used:.2f}")
        else:
            found.append(
                f"Features of {NAMES[name]} have {overlap:.2f} times the interference of random "
                f"directions, and {used:.2f} of their dimensions"
            )
    return "; ".join(found)


def _tail(ax: Axes, data: xr.Dataset, name: str) -> None:
    """Tails of features and tokens of a model, and the law."""
    for centred, style in ((False, "solid"), (True, "dashed")):
        how = "centred" if centred else "as they are"
        tokens = data.above.sel(group=f"{name} tokens", centred=centred).values
        shown = np.where(tokens > 0, tokens, np.nan)
        ax.plot(data.multiple, shown, color=BLUE, linestyle=style, label=f"tokens, {how}")
        above = data[f"{FEATURE[name]}_above"].sel(centred=centred)
        rows = above.transpose("multiple", "seed").values
        mean_curve(
            ax,
            data.multiple,
            rows[:, np.isfinite(rows).all(axis=0)],
            PINK,
            linestyle=style,
            label=f"features, {how}",
            least=1e-6,
        )
    law = data.law.sel(group=f"{name} tokens").values
    shown = np.where(law > 1e-9, law, np.nan)
    ax.plot(data.multiple, shown, color=GREY, linewidth=2.5, alpha=0.6, label="random (law)")
    ax.set(yscale="log", ylim=(1e-6, 1e6), xlabel="|cosine| · √d")  # room for the legend
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1])
    ax.set_ylabel(f"{NAMES[name]}\nshare of pairs above")
    ax.legend(fontsize=6, loc="upper right")


def _numbers(ax: Axes, data: xr.Dataset, name: str, measured: str) -> None:
    """One number of every kind of directions, over that of random ones, as they are and centred."""
    kinds = {**KINDS, "features": (PINK, "features")}
    seen = []
    for place, (kind, (colour, _)) in enumerate(kinds.items()):
        for centred, shift in ((False, -0.18), (True, 0.18)):
            values = _over_random(data, name, kind, measured, centred)
            seen.append(values)
            mark: dict[str, Any] = {"markerfacecolor": "white"} if centred else {}
            seed_dots(ax, place + shift, values, colour, half_width=0.1, size=5, opacity=0.4)
            if kind == "features" and np.isfinite(values).any():
                found = [mean_of_finite(values)]
                interval_bars(
                    ax, [place + shift], found, colour=colour, fmt="o", markersize=4, **mark
                )
            else:
                ax.plot(place + shift, values.mean(), "o", color=colour, markersize=4, **mark)
    tilted_labels(ax, [label for _, label in kinds.values()])
    reference_line(ax, y=1, label="random directions")
    ax.set_xlim(-0.5, len(kinds) - 0.5)
    every = np.concatenate(seen)
    if np.nanmax(every) > _WIDE * np.nanmin(every):
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator())
        ax.yaxis.set_major_formatter(ScalarFormatter())


def _bounds(middle: Axes, right: Axes, data: xr.Dataset, name: str, dim: int) -> None:
    """Theoretical bounds on features, as lines in both panels; and room for legends."""
    stem = FEATURE[name]
    null = {
        measured: data[f"{stem}_null_{measured}"].sel(centred=False)
        for measured in ("mean_square", "dimensionality_sum")
    }
    least = float((data[f"{stem}_welch"] ** 2 / null["mean_square"]).mean())
    most = dim / float(null["dimensionality_sum"].mean())
    for ax, y, label in (
        (middle, least, "least possible for features (Welch)"),
        (right, most, "all dimensions, for features"),
    ):
        reference_line(ax, y=y, label=label, style="dashed", colour=PINK)
        low, high = ax.get_ylim()
        if ax.get_yscale() == "log":
            ax.set_ylim(low, high * (high / low) ** 0.35)
        else:
            ax.set_ylim(0, 1.3 * high)
        ax.legend(fontsize=6, loc="upper left")


def _over_random(
    data: xr.Dataset, name: str, kind: str, measured: str, centred: bool
) -> np.ndarray:
    """A number over that of random directions: one for each autoencoder, or for each layer."""
    if kind == "features":
        stem = FEATURE[name]
        null = data[f"{stem}_null_{measured}"].sel(centred=False)
        values: Any = data[f"{stem}_{measured}"].sel(centred=centred) / null
    else:
        chosen = (data.model == name).values & (data.kind == kind).values
        sets = data.isel(set=np.flatnonzero(chosen))
        values = sets[measured].sel(centred=centred) / sets[f"null_{measured}"].mean("draw")
    return np.asarray(values)
