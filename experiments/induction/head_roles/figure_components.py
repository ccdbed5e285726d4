"""The components of a full transformer: direct effects, nats, alignment, norms, bandwidth."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, mean_bars, reference_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.style import PAGE, letter_panels, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.head_roles import aligned_by


def components(record: Record) -> Figure:
    """Every component of the full model: direct effect, nats lost, alignment; norms; bandwidth.

    Heads are aligned by what they do, seed by seed; a mean over seeds of "head 0.1" is of no head.
    """
    full = members_where(record.data, "full_alive")
    figure = Figure(figsize=(PAGE, 4.2))
    panels = figure.subplot_mosaic("ABCD;ABCE", width_ratios=(1.3, 1.4, 1.2, 1.0))
    direct, lost, aligned, price, used = (panels[name] for name in "ABCDE")
    names = [str(name) for name in full.full_component.values]
    y = np.arange(len(names))[::-1]
    cells = np.array([y[names.index(cell)] for cell in full.cell.values])
    full = _aligned_heads(full)
    _direct(direct, full, y)
    _lost(lost, full, cells)
    _aligned(aligned, full, cells)
    for ax in (direct, lost, aligned):
        ax.axvline(0, color=BLACK, linewidth=0.5)
        labels = _row_names(names, full.sizes["full_head"])
        ax.set_yticks(y, labels if ax is direct else [""] * len(names))
        ax.set_ylim(-0.7, len(names) - 0.3)
    _price(price, full)
    _used(used, full)
    letter_panels([direct, lost, aligned, price, used])
    sample_note(figure, f"mean and 95 % interval of {full.sizes['full_member']} seeds")
    return figure


def _aligned_heads(full: xr.Dataset) -> xr.Dataset:
    """The heads of each layer in the order of their attention to the previous token."""
    axes = {"direct_full": "full_component", "nats_lost": "cell", "alignment_full": "cell"}
    # Before training a head is followed by its place, so that it is the same head as after.
    axes |= {"alignment_full_at_init": "cell"}
    return full.assign(
        {name: aligned_by(full[name], full.looks_back_full, axis) for name, axis in axes.items()}
    )


def _row_names(names: Sequence[str], n_heads: int) -> list[str]:
    """Rows in words: a head is called by the rank of its attention to the previous token."""
    ranks = {0: "looks back most", n_heads - 1: "looks back least"}
    words = {"tokens": "token", "bias": "bias of the logits"}
    for name in names:
        kind, _, place = name.partition(" ")
        if kind == "head":
            layer, rank = (int(number) for number in place.split("."))
            words[name] = f"layer {layer}: {ranks.get(rank, f'rank {rank + 1}')}"
        elif place:
            words[name] = f"layer {place}: {'MLP' if kind == 'mlp' else 'bias of heads'}"
    return [words.get(name, name) for name in names]


def _direct(ax: Axes, full: xr.Dataset, y: np.ndarray) -> None:
    _rows(ax, y, full.direct_full, BLUE, "o")
    n = full.sizes["full_member"]
    ax.set(
        title="direct effect",
        xlabel=f"logits of the next token\nover the mean token (n = {n})",
    )
    _linear_near_zero(ax, (-1, 0, 0.1, 1, 10))


def _lost(ax: Axes, full: xr.Dataset, y: np.ndarray) -> None:
    kinds = zip(full.replaced.values, (BLUE, ORANGE, GREEN, PINK), "osD^", strict=True)
    for i, (kind, colour, marker) in enumerate(kinds):
        _rows(ax, y + 0.27 - 0.18 * i, full.nats_lost.sel(replaced=kind), colour, marker, str(kind))
    ax.set(title="nats lost without it", xlabel="nats per token")
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0.22))
    _linear_near_zero(ax, (0, 0.1, 1, 10))
    ax.set_xlim(-0.12, max(8, 1.8 * float(full.nats_lost.max())))


def _aligned(ax: Axes, full: xr.Dataset, y: np.ndarray) -> None:
    _rows(ax, y + 0.12, full.alignment_full_at_init, GREY, "s", "before training")
    _rows(ax, y - 0.12, full.alignment_full, BLUE, "o", "after")
    ax.set(title="alignment", xlabel="cosine with the stream,\nmean over tokens")
    ax.legend(loc="lower left")


def _price(ax: Axes, full: xr.Dataset) -> None:
    mean_bars(ax, np.stack([full.loss, full.norm_constant]), BLUE, width=0.7)
    reference_line(ax, y=full.full_uniform, label="uniform")
    ax.set_xticks((0, 1), ("model", "constant\nnorms"))
    ax.set(title="linear norms", ylabel="nats per token", ylim=(0, 1.3 * float(full.full_uniform)))
    ax.legend(loc="upper left")


def _used(ax: Axes, full: xr.Dataset) -> None:
    mean_bars(ax, np.stack([full.bandwidth_effective, full.bandwidth_reused]), BLUE, width=0.7)
    null = [float(full.bandwidth_null)] * 2
    ax.plot((0.6, 1.4), null, color=BLACK, linewidth=0.8, linestyle="--", label="random")
    ax.set_xticks((0, 1), ("used", "shared by\ntwo heads"))
    ax.set(title="heads together", ylabel="share of the stream", ylim=(0, 1.2))
    ax.legend(loc="upper right")


def _linear_near_zero(ax: Axes, ticks: Sequence[float]) -> None:
    ax.set_xscale("symlog", linthresh=0.1)  # linear between the ticks beside 0
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _rows(
    ax: Axes, y: np.ndarray, values: xr.DataArray, colour: str, marker: str, label: str = ""
) -> None:
    """A mean over members with its interval at each height."""
    found = [mean_estimate(row) for row in values.transpose(..., "full_member").values]
    how = {"markersize": 2.5, "linewidth": 0.7, "capsize": 0, "label": label or None}
    interval_bars(ax, y, found, colour=colour, horizontal=True, fmt=marker, **how)
