"""Figures that two experiments on text share: losses of terms, and heads by distance."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_lengths,
    mean_bars,
    reference_line,
    tilted_labels,
)
from circuitax.figures.palette import (
    BLACK,
    BLUE,
    GREY,
    LAYER_COLOURS,
    ORANGE,
    ORDER_COLOURS,
    SKY,
    YELLOW,
)
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import members_where

LAYERS = (("layer 0", BLUE, SKY), ("layer 1", ORANGE, YELLOW))
ORDERS = ("order 0", "≤ 1", "≤ 2")
# Nats that each order saves in the framework paper's two-layer model (term importance analysis).
PRINTED_ORDERS = (1.8, 5.2, 0.3)
SELECTIONS = ("direct", "+ layer 0", "+ layer 1", "+ both", "all")


def terms(data: xr.Dataset) -> Figure:
    """Nats saved by order and by layers of order 1."""
    data = members_where(data)
    figure, axes = new_figure(1, 2, height=2.8, width_ratios=(1.3, 1.2))
    by_order, by_layer = axes[0]
    _waterfall(by_order, data)
    _saved_by_layers(by_layer, data.first_order_loss)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def _waterfall(ax: Axes, data: xr.Dataset) -> None:
    """The loss going down from uniform guessing: a floating bar of nats saved by each order."""
    losses = data.order_loss.transpose("member", ...).values
    before = np.concatenate([np.full((len(losses), 1), float(data.uniform)), losses[:, :-1]], 1)
    for x, printed in enumerate(PRINTED_ORDERS):
        saved = mean_estimate(before[:, x] - losses[:, x])
        top, bottom = before[:, x].mean(), losses[:, x].mean()
        ax.bar([x], [top - bottom], bottom=[bottom], color=ORDER_COLOURS[x], width=0.7)
        arms = interval_lengths([saved])
        ax.errorbar([x], [bottom], arms[::-1], fmt="none", color=BLACK, capsize=2, linewidth=0.8)
        text = f"−{saved.value:.2f}\n(paper: {printed})"
        ax.annotate(text, (x, top), (0, 3), textcoords="offset points", ha="center", fontsize=6)
    reference_line(ax, y=data.uniform, label="uniform")
    if "bigram_loss" in data:
        reference_line(ax, y=data.bigram_loss, label="bigram table", style="dashed")
    least = losses[:, -1].mean()
    room = float(data.uniform) - least
    ax.set(ylim=(least - 0.25 * room, float(data.uniform) + 0.35 * room), xlim=(-0.75, 2.65))
    ax.set(ylabel="held-out loss, nats per token", title="what each order saves")
    ax.set_xticks(range(3), ["order 0", "1", "2"])
    ax.legend(loc="lower left", fontsize=6)


def _saved_by_layers(ax: Axes, losses: xr.DataArray) -> None:
    """Nats saved by order-1 terms of each layer beyond the direct path."""
    values = losses.transpose("member", ...).values
    saved = [mean_estimate(values[:, 0] - values[:, i]) for i in range(1, values.shape[1])]
    for x, estimate in enumerate(saved):
        ax.bar([x], [estimate.value], color=(*LAYER_COLOURS[:2], GREY, GREY)[x], width=0.7)
        text = f"{estimate.value:.2f}"
        ax.annotate(
            text, (x, estimate.high), (0, 2), textcoords="offset points", ha="center", fontsize=7
        )
    at, middle = range(len(saved)), [estimate.value for estimate in saved]
    arms = interval_lengths(saved)
    ax.errorbar(at, middle, arms, fmt="none", color=BLACK, capsize=2, linewidth=0.8)
    tilted_labels(ax, [name.removeprefix("+ ") for name in SELECTIONS[1:]])
    ax.set(ylabel="nats saved beyond the direct path", title="order-1 terms of")


def distance(data: xr.Dataset) -> Figure:
    """Mean attention at each distance: one line for each head of every seed, and the mean."""
    data = members_where(data)
    figure, axes = new_figure(1, 2, height=2.4, sharey=True)
    back = np.arange(data.sizes["offset"])
    n_ctx = int(data.n_ctx)
    even = np.mean(1 / (np.arange(n_ctx // 2, n_ctx) + 1))
    for ax, layer, (name, dark, light) in zip(axes[0], range(2), LAYERS, strict=True):
        curves = data.attention.isel(layer=layer).transpose("member", "head", "offset").values
        curves = curves.reshape(-1, len(back))
        ax.plot(back, curves.T, color=light, linewidth=0.5, alpha=0.7)
        label = f"mean of {len(curves)} heads, {data.sizes['member']} seeds"
        ax.plot(back, curves.mean(0), "o-", color=dark, markersize=3, label=label)
        reference_line(ax, y=even, label="even attention")
        ax.set(title=name, xlabel="tokens back", xticks=back, ylim=(0, 1))
        ax.legend()
    axes[0, 0].set_ylabel("attention")
    letter_panels(axes[0])
    return figure


def loss_bars(ax: Axes, labels: Sequence[str], losses: xr.DataArray, title: str) -> None:
    """A bar for each selection of terms: the mean loss over members, with a 95 % interval."""
    mean_bars(ax, losses.transpose(..., "member"), BLUE)
    tilted_labels(ax, labels)
    ax.set_title(title)
