"""The components of a full transformer: direct effects, nats, alignment, norms, bandwidth."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PAGE, PINK, letter_panels
from circuitax.records.estimate import mean_estimate


def components(full: xr.Dataset) -> Figure:
    """Every component of the full model: direct effect, nats lost, alignment; norms; bandwidth."""
    figure = Figure(figsize=(PAGE, 4.2))
    panels = figure.subplot_mosaic("ABCD;ABCE", width_ratios=(1.3, 1.4, 1.2, 1.0))
    direct, lost, aligned, price, used = (panels[name] for name in "ABCDE")
    names = list(full.full_component.values)
    y = np.arange(len(names))[::-1]
    _rows(direct, y, full.direct_full.transpose("full_member", ...).values, BLUE, "o", "")
    direct.set(title="direct effect", xlabel="logits of the next token\nover the mean token")
    cells = np.array([y[names.index(cell)] for cell in full.cell.values])
    kinds = zip(full.replaced.values, (BLUE, ORANGE, GREEN, PINK), "osD^", strict=True)
    for i, (kind, colour, marker) in enumerate(kinds):
        nats = full.nats_lost.sel(replaced=kind).transpose("full_member", "cell").values
        _rows(lost, cells + 0.27 - 0.18 * i, nats, colour, marker, str(kind))
    lost.set(title="nats lost without it", xlabel="nats a token")
    lost.legend(loc="upper left", bbox_to_anchor=(0, 0.22))
    for ax, ticks in ((direct, (-1, 0, 0.1, 1, 10)), (lost, (0, 0.1, 1))):
        ax.set_xscale("symlog", linthresh=0.1)  # linear between the ticks beside 0
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
    lost.set_xlim(-0.12, 8)
    for when, colour, marker, shift in (("_at_init", GREY, "s", 0.12), ("", BLUE, "o", -0.12)):
        values = full[f"alignment_full{when}"].transpose("full_member", "cell").values
        label = "before training" if when else "after"
        _rows(aligned, cells + shift, values, colour, marker, label)
    aligned.set(title="alignment", xlabel="cosine with the stream,\nmean over tokens")
    aligned.legend(loc="lower left")
    for ax in (direct, lost, aligned):
        ax.axvline(0, color=BLACK, linewidth=0.5)
        ax.set_yticks(y, names if ax is direct else [""] * len(names))
        ax.set_ylim(-0.7, len(names) - 0.3)
    bars(price, np.stack([full.loss.values, full.norm_constant.values], axis=1), BLUE)
    price.axhline(float(full.full_uniform), color=BLACK, linewidth=0.7, linestyle=":",
                  label="uniform")  # fmt: skip
    price.set_xticks((0, 1), ("model", "constant\nnorms"))
    price.set(title="linear norms", ylabel="nats a token",
              ylim=(0, 1.3 * float(full.full_uniform)))  # fmt: skip
    price.legend(loc="upper left")
    values = np.stack([full.bandwidth_effective.values, full.bandwidth_reused.values], axis=1)
    bars(used, values, BLUE)
    used.plot((0.6, 1.4), [float(full.bandwidth_null)] * 2, color=BLACK, linewidth=0.8,
              linestyle="--", label="random")  # fmt: skip
    used.set_xticks((0, 1), ("used", "shared by\ntwo heads"))
    used.set(title="heads together", ylabel="share of the stream", ylim=(0, 1.2))
    used.legend(loc="upper right")
    letter_panels([direct, lost, aligned, price, used])
    return figure


def bars(
    ax: Axes, values: np.ndarray, colour: str, shift: float = 0.0, width: float = 0.7,
    label: str | None = None,
) -> None:  # fmt: skip
    """Means over the first axis as bars, with their 95 % intervals."""
    middle, spread = _interval(values)
    ax.bar(np.arange(len(middle)) + shift, middle, width, yerr=spread, color=colour, label=label,
           error_kw={"linewidth": 0.8})  # fmt: skip


def _rows(
    ax: Axes, y: np.ndarray, values: np.ndarray, colour: str, marker: str, label: str
) -> None:
    middle, spread = _interval(values)
    ax.errorbar(middle, y, xerr=spread, fmt=marker, color=colour, markersize=2.5, linewidth=0.7,
                label=label or None)  # fmt: skip


def _interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over the first axis, and how far their 95 % intervals reach; 0 for a single seed."""
    found = [mean_estimate(column) for column in values.T]
    spread = np.array([[e.value - e.low for e in found], [e.high - e.value for e in found]])
    return np.array([e.value for e in found]), np.where(np.isfinite(spread), spread, 0)
