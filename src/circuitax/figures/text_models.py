"""On real text each layer lowers the loss: none is a bigram model, one reads the context.

training   Zero layers stop at the bigram table of the corpus; one and two layers go below it.
           Refuted if the blue curve ends below the dashed line, or the layers' bands overlap.
positions  Layers earn their loss from context: late tokens gain more from them than early ones.
           Refuted if the curves of one and two layers are flat. On repeated random tokens a late
           gain would be an induction head.
"""

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
from circuitax.records.record import Record

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
            right.errorbar(i, e.value, [[e.value - e.low], [e.high - e.value]], color=BLACK,
                           capsize=3, linewidth=1)  # fmt: skip
        right.annotate(f"{e.value:.3f}", (i, losses.max()), xytext=(0, 4), ha="center",
                       textcoords="offset points", fontsize=6.5)  # fmt: skip
    for ax in (left, right):
        ax.axhline(float(data.bigram_loss), color=BLACK, linewidth=0.8, linestyle="--",
                   label="bigram table")  # fmt: skip
    left.axhline(float(data.unigram_loss), color=GREY, linewidth=0.8, linestyle=":",
                 label="unigram table")  # fmt: skip
    left.set(xlabel="tokens trained on, millions", ylabel="held-out loss, nats a token")
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
    """What the first seed of each model writes, at temperature 0.8."""
    texts = record.notes["samples"]
    figure, axes = new_figure(1, len(texts), width=PAGE, height=1.2)
    for ax, (name, text) in zip(axes[0], texts.items(), strict=True):
        ax.set_axis_off()
        ax.set_title(_label(name))
        ax.text(0, 1, _wrapped(text), va="top", fontsize=5.5, family="monospace",
                transform=ax.transAxes, parse_math=False)  # fmt: skip
    return figure


def _wrapped(text: str, width: int = 34, lines: int = 11) -> str:
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


def _models(data: xr.Dataset) -> list[tuple[str, str]]:
    return [(str(n), c) for n, c in zip(data.model.values, COLOURS, strict=False)]


def _alive(data: xr.Dataset, name: str) -> xr.Dataset:
    chosen = data.sel(model=name)
    return chosen.isel(member=np.flatnonzero(chosen.alive.values))


def _label(name: str) -> str:
    if name == "full":
        return "2, with MLPs"
    n = name.removeprefix("layers-")
    return "1 layer" if n == "1" else f"{n} layers"
