"""Deeper and wider models of repeated tokens: their change, places of heads, gains of tokens."""

from itertools import cycle

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLUE, COLOURS, DEPTH_COLOURS, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.induction_depth.measures import has_no_mlps, widths_of
from experiments.induction.shared.head_roles import PREFIX_SCORE

MARKS = "os^DvPX"
# Panels of one row; five fit if they are all.
COLUMNS = 4


def _alive(record: Record) -> xr.Dataset:
    """The arms of which a seed stayed finite."""
    return record.data.isel(arm=record.data.alive.any("member").values)


def curves(record: Record) -> Figure:
    """In-context score and loss of every size: of two layers, and of the width of all depths."""
    data = _alive(record)
    # The width of all depths is the second one, whether models of two layers lived or not.
    width = int(record.data.d_model.sel(arm=widths_of(record.data)[1]))
    figure, axes = new_figure(2, 2, height=4.6, sharex=True, sharey="col")
    two, deep = data.n_layers.values == 2, data.d_model.values == width
    for row, title, chosen, colours in (
        (axes[0], "widths, two layers", two, COLOURS),
        (axes[1], "depths, one width", deep & (has_no_mlps(data) | ~two), DEPTH_COLOURS[1:]),
    ):
        for ax, name in zip(row, ("in_context", "loss"), strict=True):
            _of_arms(ax, data.isel(arm=chosen), name, colours)
        zero_line(row[0])
        row[0].set_ylabel("in-context score, nats")
        row[1].set_ylabel("loss, nats")
        reference_line(row[1], y=float(data.uniform), label="uniform", style="dotted")
        beside = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        row[1].legend(title=title, title_fontsize=7, fontsize=6.5, **beside)
    for ax in axes[1]:
        ax.set_xlabel("steps")
    letter_panels(axes.flat)
    sample_note(figure, _interval(data))
    return figure


def _of_arms(ax: Axes, data: xr.Dataset, name: str, colours: tuple[str, ...]) -> None:
    """One quantity of several arms along training."""
    for arm, colour, mark in zip(data.arm.values, cycle(colours), cycle(MARKS), strict=False):
        part = members_where(data.sel(arm=arm))[name].transpose("step", "member")
        line = mean_curve(ax, part.step, part.values, colour, label=str(arm), marker=mark)
        line.set(markevery=5, markersize=3.5)


def heads(record: Record) -> Figure:
    """Prefix matching against copying, of every head by its layer."""
    data = _alive(record)
    arms = data.arm.values[data.n_layers.values > 2]
    figure, panels, axes = _grid(len(arms), 2, 2.6)
    for ax, arm in zip(panels, arms, strict=True):
        part = members_where(data.sel(arm=arm))
        for layer in range(int(part.n_layers)):
            dots = part.isel(layer=layer)
            ax.plot(
                dots.copying.values.ravel(),
                dots.prefix.values.ravel(),
                MARKS[layer % len(MARKS)],
                color=COLOURS[layer % len(COLOURS)],
                markersize=3,
                linestyle="none",
                label=f"layer {layer}",
            )
        reference_line(ax, y=PREFIX_SCORE, label="matches", style="dotted")
        zero_line(ax, vertical=True)
        ax.set_title(f"{arm}, {part.sizes['member']} seeds")
    _label(axes, "copying, cosine", "prefix matching")
    if panels:
        legend_above(figure, panels[-1], columns=7)
    letter_panels(panels)
    return figure


def tokens(record: Record) -> Figure:
    """Losses on a last token that continues the repeat and on one that breaks it."""
    data = _alive(record)
    arms = data.arm.values[data.n_layers.values > 1]
    figure, panels, axes = _grid(len(arms), len(arms) if len(arms) <= 5 else COLUMNS, 2.2)
    for ax, arm in zip(panels, arms, strict=True):
        part = members_where(data.sel(arm=arm))
        _change(ax, part)
        for name, colour, label in (
            ("on_repeat", BLUE, "continues the repeat"),
            ("on_break", ORANGE, "breaks it"),
        ):
            values = part[name].transpose("step", "member").values
            mean_curve(ax, part.step, values, colour, label=label, marker="", each=False)
        ax.set_title(str(arm), fontsize=7)
        ax.set_xticks([0, int(data.step[-1])])
    _label(axes, "steps", "loss on last token, nats")
    legend_above(figure, panels[0], columns=3, title=_interval(data), title_fontsize=7)
    letter_panels(panels)
    return figure


def _grid(n: int, columns: int, height: float) -> tuple[Figure, list[Axes], np.ndarray]:
    """A figure with n panels in rows of so many, the panels, and all axes, unused ones hidden."""
    rows = max(1, -(-n // columns))
    inches, across = height * (1 + 0.8 * (rows - 1)), min(columns, max(n, 1))
    figure, axes = new_figure(rows, across, height=inches, sharex=True, sharey=True)
    for ax in axes.flat[n:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:n]), axes


def _label(axes: np.ndarray, x: str, y: str) -> None:
    """Names of the axes, at the outer panels."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)


def _interval(data: xr.Dataset) -> str:
    """Number of seeds in the means."""
    counts = sorted({int(n) for n in data.alive.sum("member").values})
    return f"mean of {' or '.join(map(str, counts))} seeds each, 95 % interval"


def _change(ax: Axes, part: xr.Dataset) -> None:
    """The stretch in which the in-context score falls most, mean of seeds."""
    ends = (float(np.mean(part[f"jump_{end}"])) for end in ("start", "end"))
    ax.axvspan(*ends, color="0.9", linewidth=0, label="phase change")


FIGURES = (
    FigureSpec(
        "curves",
        curves,
        message="The phase change occurs at every size of two layers or more, though not in every "
        "seed; narrow two-layer models change later than wide ones.",
        caption="In-context score and loss along training, above by width and with MLPs, below by "
        "depth.",
        refuted="Refuted if a curve of two layers or more falls evenly.",
    ),
    FigureSpec(
        "heads",
        heads,
        message="Prefix-matching heads lie in the last layers, and copy.",
        refuted="Each dot is a head; refuted if matching heads of the first layers are as many, "
        "or lie left of zero.",
    ),
    FigureSpec(
        "tokens",
        tokens,
        message="During the phase change the loss falls on tokens that continue a repeat, and "
        "rises on tokens that break one.",
        refuted="Refuted if both fall.",
    ),
)
