"""Figures of a family of models of one text: losses, where in the text, samples, and sweeps.

`kit.text_family` trains such a family.
"""

from textwrap import wrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    legend_above,
    mean_curve,
    reference_line,
    seed_column,
    tilted_labels,
)
from circuitax.figures.palette import BLACK, DEPTH_COLOURS, PINK, SKY, YELLOW
from circuitax.figures.style import PAGE, letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.merge import axis_names
from circuitax.records.record import Record
from experiments.one_layer.shared.figure_lengths import ends_by_length, length_axis
from experiments.one_layer.shared.measures_text_family import measure

# What twice the tokens may still gain in training that is called converged, nats.
CONVERGED = 0.02
FLOOR_STYLES = {"unigram": "dotted", "bigram": "dashed", "trigram": "solid"}
# Samples of text: how many stand beside each other, letters of a page's width, lines of a sample.
_BESIDE, _LETTERS, _LINES = 3, 116, 9
_DEPTH = "model.n_layers"
COLOURS = (*DEPTH_COLOURS[:3], PINK, SKY, YELLOW)  # 0, 1 and 2 layers, then with MLPs


def training(record: Record) -> Figure:
    """Held-out loss over training and against the length of training, and at the end, by seed."""
    data = record.data
    figure, axes = new_figure(1, 3, height=3.0, width_ratios=[1.3, 1.1, 1])
    left, middle, right = axes[0]
    for i, (name, colour) in enumerate(_models(data)):
        members = members_where(data.sel(model=name))
        tokens = data.tokens.values / 1e6
        mean_curve(left, tokens, members.loss.values, colour, label=_label(name), marker=None)
        if name != "full":
            ends_by_length(middle, data, name, colour)
        seed_column(right, i, members.loss_by_position.mean("position").values, colour)
    for ax in (left, middle, right):
        for floor, style in FLOOR_STYLES.items():
            if floor == "unigram" and ax is not left:
                continue  # far above all that is read there
            line = reference_line(ax, y=data[f"{floor}_loss"], style=style)
            if ax is left:
                line.set_label(f"{floor} table")
    left.set(xlabel="tokens seen, millions", ylabel="held-out loss, nats per token")
    left.set_title("along the longest training")
    middle.set_title("ends of trainings")
    length_axis(middle, data)
    right.set_title("ends of the longest")
    tilted_labels(right, [_label(n) for n, _ in _models(data)])
    right.margins(y=0.12)
    letter_panels(axes[0])
    # Below the unigram table, where all that is learned from neighbours is seen.
    left.set_ylim(top=max(float(data.unigram_loss), float(data.loss[:, -1].max())) + 0.3)
    legend_above(figure, left, columns=4, title=budget_message(record), title_fontsize=7)
    return figure


def budget_message(record: Record) -> str:
    """Training length of the models, and its distance from convergence."""
    tokens = float(record.data.tokens.values[-1]) / 1e6
    gains = [
        (name, estimate.value)
        for name, estimate in measure(record).estimates.items()
        if name.startswith("last-doubling-")
    ]
    if not gains:
        return f"{tokens:.2g} million tokens a member"
    said = ", ".join(
        f"{gain:.3f} ({_label(name.removeprefix('last-doubling-'))})" for name, gain in gains
    )
    short = max(gain for _, gain in gains) > CONVERGED
    begin = "Short version, not converged" if short else "Converged"
    counts = sorted({int(n) for n in record.data.alive.sum("member").values})
    n, n_ends = " or ".join(map(str, counts)), record.data.sizes["seed"]
    return (
        f"{begin}: {tokens:.2g} million tokens a member.\n"
        f"The last doubling of tokens gained, in nats: {said}.\n"
        f"Bands and bars are 95 % intervals of means over {n} seeds, in b over {n_ends}; "
        "dashed in b: a power law, extrapolated"
    )


def positions(record: Record) -> Figure:
    """Nats saved by context at each position, against the zero-layer models on the same texts."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.4)
    for ax, variable in zip(axes[0], ("loss_by_position", "repeats_by_position"), strict=True):
        without = members_where(data.sel(model="layers-0"))[variable].mean("member")
        for name, colour in _models(data)[1:]:
            saved = without - members_where(data.sel(model=name))[variable]
            values = saved.transpose("position", "member").values
            mean_curve(ax, data.position.values, values, colour, label=_label(name))
        ax.axhline(0, color=BLACK, linewidth=0.6, linestyle=":")
        ax.set(xlabel="index of the token predicted", xscale="log")
    axes[0, 0].set(ylabel="nats saved over zero layers", title="held-out text")
    axes[0, 1].set_title("random tokens, repeated")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def samples(record: Record) -> Figure:
    """Continuations of the prompt by the first seed of each model, at temperature 0.8."""
    texts, losses = record.notes["samples"], measure(record).estimates
    columns = len(texts) if len(texts) <= _BESIDE else 2
    rows = -(-len(texts) // columns)
    figure, axes = new_figure(rows, columns, width=PAGE, height=0.6 + 0.9 * rows)
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, (name, text) in zip(axes.flat, texts.items(), strict=False):
        loss = losses.get(f"loss-{name}")
        nats = f", {loss.value:.2f} nats per token" if loss else ""
        ax.set_title(f"{_label(name)}{nats}", loc="left")
        ax.text(
            0,
            0.98,
            _wrapped(text, _LETTERS // columns - 2),
            va="top",
            fontsize=6.5,
            family="monospace",
            transform=ax.transAxes,
            parse_math=False,
        )
    return figure


def is_of_one_size(record: Record) -> bool:
    """Whether a sweep is over one field, such as the width, beside ``model.n_layers``."""
    return len(set(record.notes["axes"]) - {_DEPTH}) == 1


def sweep(record: Record) -> Figure:
    """The last losses of a collected sweep over one size, such as the width, and over depth."""
    names = axis_names(set(record.notes["axes"]))
    depth = names.pop(_DEPTH, None)
    ((path, width),) = names.items()
    losses = {
        end: _last_losses(record.data, end, depth).transpose("model", width)
        for end in ("", "_low", "_high")
    }
    attention_only = sorted(str(n) for n in record.data.model.values if str(n) != "full")
    order = [*attention_only, *(["full"] if "full" in record.data.model.values else [])]
    mean, low, high = (losses[end].sel(model=order) for end in losses)
    figure, axes = new_figure(1, 2, height=2.6, sharey=True)
    left, right = axes[0]
    sizes = mean[width].values
    for (name, colour), *lines in zip(_models(mean), mean, low, high, strict=True):
        _errorbars(left, sizes, *lines, color=colour, label=_label(name))
    layers = np.array([int(n.removeprefix("layers-")) for n in attention_only])
    for i, size in enumerate(sizes):
        grey = str(0.75 * (1 - i / max(len(sizes) - 1, 1)))
        lines = [part.sel({"model": attention_only, width: size}) for part in (mean, low, high)]
        _errorbars(right, layers, *lines, color=grey, label=f"{path}={size}")
    left.set(xlabel=path, ylabel="held-out loss at the end, nats", xscale="log")
    left.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
    left.minorticks_off()
    right.set(xlabel="layers, attention only", xticks=layers)
    for ax in axes[0]:
        ax.legend()
    letter_panels(axes[0])
    return figure


def _last_losses(data: xr.Dataset, end: str, depth: str | None) -> xr.DataArray:
    """By model; a model that runs of several depths have trained is the same in all of them."""
    found = []
    for name in map(str, data.model.values):
        values = data[f"loss-{name}{end}"]
        found.append(values.mean(depth) if depth in values.dims else values)
    return xr.concat(found, data.model)


def _errorbars(
    ax: Axes,
    x: np.ndarray,
    mean: xr.DataArray,
    low: xr.DataArray,
    high: xr.DataArray,
    **how: Any,
) -> None:
    y = mean.values
    ends = np.stack([y - low.values, high.values - y])
    ends[~np.isfinite(ends)] = 0  # one seed has no interval
    ax.errorbar(x, y, ends, marker="o", markersize=3, capsize=2, linewidth=1, **how)


def _wrapped(text: str, width: int) -> str:
    printable = "".join(c if c == "\n" or c.isprintable() else " " for c in text)
    # Lines of code keep their indentation, and a line of spaces stays a line.
    rows = [
        wrap(row, width, replace_whitespace=False, break_on_hyphens=False) or [""]
        for row in printable.split("\n")
    ]
    return "\n".join([line for row in rows for line in row][:_LINES])


def _models(data: xr.Dataset | xr.DataArray) -> list[tuple[str, str]]:
    return [(str(n), c) for n, c in zip(data.model.values, COLOURS, strict=False)]


def _label(name: str) -> str:
    if name == "full":
        return "2, with MLPs"
    n = name.removeprefix("layers-")
    return "1 layer" if n == "1" else f"{n} layers"
