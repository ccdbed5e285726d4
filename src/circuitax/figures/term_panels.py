"""Figures that two experiments on text share: losses of terms, and heads by distance."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, tilted_labels
from circuitax.figures.palette import BLUE, ORANGE, SKY, YELLOW
from circuitax.figures.style import letter_panels, new_figure

LAYERS = (("layer 0", BLUE, SKY), ("layer 1", ORANGE, YELLOW))
ORDERS = ("order 0", "≤ 1", "≤ 2")
SELECTIONS = ("direct", "+ layer 0", "+ layer 1", "+ both", "all")


def terms(data: xr.Dataset) -> Figure:
    """Loss by order, by layer of order 1, and what single heads cost."""
    figure, axes = new_figure(1, 3, height=2.6, width_ratios=(1, 1.4, 1.4))
    by_order, by_layer, removed = axes[0]
    loss_bars(by_order, ORDERS, data.order_loss, "paths of order")
    loss_bars(by_layer, SELECTIONS, data.first_order_loss, "order-1 terms of")
    for ax in (by_order, by_layer):
        reference_line(ax, y=data.uniform, label="uniform")
        if "bigram_loss" in data:
            reference_line(ax, y=data.bigram_loss, label="bigram table", style="dashed")
        ax.set(ylabel="held-out loss, nats per token", ylim=(0, 1.25 * data.uniform))
    by_layer.legend(loc="upper right", ncols=2)
    costs = (
        (-0.13, BLUE, "o", "patterns react", data.ablated),
        (0.13, ORANGE, "s", "patterns kept", data.ablated_preserving),
    )
    for shift, colour, marker, label, loss in costs:
        lost = (loss - data.loss).transpose("layer", ...).values
        at = np.broadcast_to(np.arange(2.0)[:, None, None] + shift, lost.shape)
        removed.plot(
            at.ravel(), lost.ravel(), marker, color=colour, markersize=3, alpha=0.6, label=label
        )
    removed.set(
        xticks=(0, 1),
        xticklabels=[name for name, *_ in LAYERS],
        xlim=(-0.5, 1.5),
        ylabel="nats lost",
        title="one head removed",
    )
    removed.set_ylim(0, 1.3 * removed.get_ylim()[1])
    removed.legend(loc="upper left", ncols=2)
    letter_panels(axes[0])
    return figure


def distance(data: xr.Dataset) -> Figure:
    """Mean attention at each distance: one line for each head of every seed, and the mean."""
    figure, axes = new_figure(1, 2, height=2.4, sharey=True)
    back = np.arange(data.sizes["offset"])
    n_ctx = int(data.n_ctx)
    even = np.mean(1 / (np.arange(n_ctx // 2, n_ctx) + 1))
    for ax, layer, (name, dark, light) in zip(axes[0], range(2), LAYERS, strict=True):
        curves = data.attention.isel(layer=layer).transpose("member", "head", "offset").values
        curves = curves.reshape(-1, len(back))
        ax.plot(back, curves.T, color=light, linewidth=0.5, alpha=0.7)
        label = f"mean of {len(curves)} heads"
        ax.plot(back, curves.mean(0), "o-", color=dark, markersize=3, label=label)
        reference_line(ax, y=even, label="even attention")
        ax.set(title=name, xlabel="tokens back", xticks=back, ylim=(0, 1))
        ax.legend()
    axes[0, 0].set_ylabel("attention")
    letter_panels(axes[0])
    return figure


def loss_bars(ax: Axes, labels: Sequence[str], losses: xr.DataArray, title: str) -> None:
    """A bar for each selection of terms: the mean loss over members, with a 95 % interval.

    Args:
        ax: Where.
        labels: Below the bars.
        losses: ``[member, selection]``, in any order.
        title: Of the panel.
    """
    mean_bars(ax, losses.transpose(..., "member"), BLUE)
    tilted_labels(ax, labels)
    ax.set_title(title)
