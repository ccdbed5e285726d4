"""Deeper and wider models of repeated tokens: the change, where heads form, what tokens gain.

curves   Every size has the phase change; the narrow ones have it later. In-context score and loss
         along training. Refuted if a curve falls evenly.
heads    Prefix-matching heads stand in the last layers, and copy. Each dot is a head; refuted if
         matching heads of the first layers are as many, or lie left of zero.
tokens   Through the change a token that continues a repeat becomes cheaper, and one that breaks it
         dearer. Refuted if both fall.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLUE, COLOURS, ORANGE
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.head_roles import PREFIX_SCORE
from circuitax.records.members import members_where
from circuitax.records.record import Record

MARKS = "os^Dv"


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The three figures of the experiment."""
    data = record.data
    return {"curves": curves(data), "heads": heads(data), "tokens": tokens(data)}


def curves(data: xr.Dataset) -> Figure:
    """In-context score and loss of every size."""
    figure, axes = new_figure(1, 2, height=2.6)
    for ax, (name, label) in zip(
        axes[0], (("in_context", "in-context score, nats"), ("loss", "loss, nats")), strict=True
    ):
        for arm, colour, mark in zip(data.arm.values, COLOURS, MARKS, strict=False):
            part = members_where(data.sel(arm=arm))[name].transpose("step", "member")
            mean_curve(ax, part.step, part.values, colour, label=str(arm), marker=mark, each=False)
        ax.set(xlabel="steps", ylabel=label)
    zero_line(axes[0, 0])
    even = reference_line(axes[0, 1], y=float(data.uniform), label="uniform", style="dotted")
    axes[0, 1].legend(handles=[even], loc="lower left")
    legend_above(figure, axes[0, 0], columns=3, title=_interval(data), title_fontsize=7)
    letter_panels(axes[0])
    return figure


def heads(data: xr.Dataset) -> Figure:
    """Prefix matching against copying, of every head by its layer."""
    arms = data.arm.values[data.n_layers.values > 2]
    figure, axes = new_figure(1, max(len(arms), 1), height=2.6, sharey=True)
    for ax, arm in zip(axes[0], arms, strict=False):
        part = members_where(data.sel(arm=arm))
        for layer in range(int(part.n_layers)):
            dots = part.isel(layer=layer)
            ax.plot(
                dots.copying.values.ravel(),
                dots.prefix.values.ravel(),
                MARKS[layer],
                color=COLOURS[layer],
                markersize=3.5,
                linestyle="none",
                label=f"layer {layer}",
            )
        reference_line(ax, y=PREFIX_SCORE, label="matches", style="dotted")
        zero_line(ax, vertical=True)
        ax.set(title=f"{arm}, {part.sizes['member']} seeds", xlabel="copying, cosine")
    axes[0, 0].set_ylabel("prefix matching")
    legend_above(figure, axes[0, -1], columns=5)
    letter_panels(axes[0])
    return figure


def tokens(data: xr.Dataset) -> Figure:
    """Losses on a last token that continues the repeat and on one that breaks it."""
    arms = data.arm.values
    figure, axes = new_figure(1, len(arms), height=2.2, sharey=True)
    for ax, arm in zip(axes[0], arms, strict=True):
        part = members_where(data.sel(arm=arm))
        _change(ax, part)
        for name, colour, label in (
            ("on_repeat", BLUE, "continues the repeat"),
            ("on_break", ORANGE, "breaks it"),
        ):
            values = part[name].transpose("step", "member").values
            mean_curve(ax, part.step, values, colour, label=label, marker="", each=False)
        ax.set(title=str(arm), xlabel="steps")
        ax.set_xticks([0, int(data.step[-1])])
    axes[0, 0].set_ylabel("loss on last token, nats")
    legend_above(figure, axes[0, 0], columns=3, title=_interval(data), title_fontsize=7)
    letter_panels(axes[0])
    return figure


def _interval(data: xr.Dataset) -> str:
    """How many seeds the means are of."""
    counts = sorted({int(n) for n in data.alive.sum("member").values})
    return f"mean of {' or '.join(map(str, counts))} seeds each, 95 % interval"


def _change(ax: Axes, part: xr.Dataset) -> None:
    """The stretch in which the in-context score falls most, mean of seeds."""
    ends = (float(np.mean(part[f"jump_{end}"])) for end in ("start", "end"))
    ax.axvspan(*ends, color="0.9", linewidth=0, label="phase change")
