"""On real text each layer lowers the loss: none is a bigram model, one reads the context.

training   Zero layers stop at the bigram table of the corpus; one and two layers go below it.
           Refuted if the blue curve ends below the dashed line, or the layers' bands overlap.
positions  Layers earn their loss from context: late tokens gain more from them than early ones.
           Refuted if the curves of one and two layers are flat. On repeated random tokens a late
           gain would be an induction head.
samples    What each model makes of one prompt. Nothing is settled by it.
sweep      (experiments.collect, after a sweep over the width) Width lowers the loss however short
           the training, depth only after enough of it. Refuted if a line of a rises.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    PINK,
    SKY,
    YELLOW,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.merge import axis_names
from circuitax.records.record import Record
from experiments.text_models.measures import measure

COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW)


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figures of the experiment."""
    return {
        "training": training(record),
        "positions": positions(record),
        "samples": samples(record),
    }


def training(record: Record) -> Figure:
    """Held-out loss over training, and at its end, seed by seed."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=[1.6, 1])
    left, right = axes[0]
    for i, (name, colour) in enumerate(_models(data)):
        members = _alive(data, name)
        _band(left, data.tokens.values / 1e6, members.loss.values, colour, _label(name))
        losses = members.loss_by_position.mean("position").values
        e = mean_estimate(losses)
        spread = np.linspace(-0.18, 0.18, losses.size) if losses.size > 1 else [0.0]
        right.scatter(i + np.asarray(spread), losses, s=7, color=colour, alpha=0.5, linewidths=0)
        if np.isfinite(e.low):
            right.errorbar(
                i,
                e.value,
                [[e.value - e.low], [e.high - e.value]],
                color=BLACK,
                capsize=3,
                linewidth=1,
            )
        top = max(losses.max(), e.high) if np.isfinite(e.high) else losses.max()
        right.annotate(
            f"{e.value:.3f}",
            (i, top),
            xytext=(0, 4),
            ha="center",
            textcoords="offset points",
            fontsize=6.5,
        )
    for ax in (left, right):
        ax.axhline(
            float(data.bigram_loss),
            color=BLACK,
            linewidth=0.8,
            linestyle="--",
            label="bigram table",
        )
    left.axhline(
        float(data.unigram_loss), color=GREY, linewidth=0.8, linestyle=":", label="unigram table"
    )
    left.set(xlabel="tokens trained on, millions", ylabel="held-out loss, nats per token")
    left.legend(loc="upper right", frameon=True, facecolor="white", edgecolor="none", framealpha=1)
    right.set(ylabel="held-out loss at the end, nats")
    right.set_xticks(range(data.sizes["model"]), [_label(n) for n, _ in _models(data)], rotation=20)
    right.margins(y=0.12)
    letter_panels(axes[0])
    return figure


def positions(record: Record) -> Figure:
    """What context saves at each position, against the zero-layer models on the same texts."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.4)
    for ax, variable in zip(axes[0], ("loss_by_position", "repeats_by_position"), strict=True):
        without = _alive(data, "layers-0")[variable].mean("member")
        for name, colour in _models(data)[1:]:
            saved = without - _alive(data, name)[variable]
            values = saved.transpose("position", "member").values
            _band(ax, data.position.values, values, colour, _label(name))
        ax.axhline(0, color=BLACK, linewidth=0.6, linestyle=":")
        ax.set(xlabel="index of the token predicted", xscale="log")
    axes[0, 0].set(ylabel="nats saved over zero layers", title="held-out text")
    axes[0, 1].set_title("random tokens, repeated")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    letter_panels(axes[0])
    return figure


def samples(record: Record) -> Figure:
    """What the first seed of each model writes after the prompt, at temperature 0.8."""
    texts, losses = record.notes["samples"], measure(record).estimates
    columns = 2
    figure, axes = new_figure(-(-len(texts) // columns), columns, width=PAGE, height=2.4)
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, (name, text) in zip(axes.flat, texts.items(), strict=False):
        loss = losses.get(f"loss-{name}")
        nats = f", {loss.value:.2f} nats per token" if loss else ""
        ax.set_title(f"{_label(name)}{nats}", loc="left")
        ax.text(
            0,
            0.98,
            _wrapped(text),
            va="top",
            fontsize=6.5,
            family="monospace",
            transform=ax.transAxes,
            parse_math=False,
        )
    return figure


@styled
def draw_sweep(record: Record) -> dict[str, Figure]:
    """The last losses of a collected sweep over one size, such as the width, and over depth.

    Nothing for sweeps over several fields beside ``model.n_layers``.
    """
    names = axis_names(set(record.notes["axes"]))
    depth = names.pop("model.n_layers", None)
    if len(names) != 1:
        return {}
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
    return {"sweep": figure}


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


def _wrapped(text: str, width: int = 56, lines: int = 8) -> str:
    printable = "".join(c if c == "\n" or c.isprintable() else " " for c in text)
    rows = [
        row[i : i + width]
        for row in printable.split("\n")
        for i in range(0, max(len(row), 1), width)
    ]
    return "\n".join(rows[:lines])


def _band(ax: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
    """Mean over the last axis, members, with its 95 % interval."""
    estimates = [mean_estimate(row) for row in values]
    ax.plot(x, [e.value for e in estimates], color=colour, label=label)
    low, high = ([getattr(e, end) for e in estimates] for end in ("low", "high"))
    if np.isfinite(low).all():
        ax.fill_between(x, low, high, color=colour, alpha=0.3, linewidth=0)


def _models(data: xr.Dataset | xr.DataArray) -> list[tuple[str, str]]:
    return [(str(n), c) for n, c in zip(data.model.values, COLOURS, strict=False)]


def _alive(data: xr.Dataset, name: str) -> xr.Dataset:
    chosen = data.sel(model=name)
    return chosen.isel(member=np.flatnonzero(chosen.alive.values))


def _label(name: str) -> str:
    if name == "full":
        return "2, with MLPs"
    n = name.removeprefix("layers-")
    return "1 layer" if n == "1" else f"{n} layers"
