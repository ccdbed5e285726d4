"""Figures that two experiments on text share: losses of terms, and heads by distance."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    BLUE,
    ORANGE,
    SKY,
    YELLOW,
    letter_panels,
    new_figure,
)
from circuitax.records.estimate import mean_estimate

LAYERS = (("layer 0", BLUE, SKY), ("layer 1", ORANGE, YELLOW))


def terms(data: xr.Dataset) -> Figure:
    """Loss by order, by layer of order 1, and what single heads cost."""
    figure, axes = new_figure(1, 3, height=2.6, width_ratios=(1, 1.4, 1.4))
    by_order, by_layer, removed = axes[0]
    bars(by_order, ["order 0", "≤ 1", "≤ 2"], data.order_loss.transpose("member", ...).values)
    labels = ["direct", "+ layer 0", "+ layer 1", "+ both", "all"]
    bars(by_layer, labels, data.first_order_loss.transpose("member", ...).values)
    for ax, title in ((by_order, "paths of order"), (by_layer, "order-1 terms of")):
        ax.axhline(float(data.uniform), color=BLACK, linewidth=0.7, linestyle=":", label="uniform")
        if "bigram_loss" in data:
            ax.axhline(float(data.bigram_loss), color=BLACK, linewidth=0.7, linestyle="--",
                       label="bigram table")  # fmt: skip
        ax.set(ylabel="held-out loss, nats a token", title=title, ylim=(0, 1.25 * data.uniform))
    by_layer.legend(loc="upper right", ncols=2)
    cost = {"patterns react": data.ablated, "patterns kept": data.ablated_preserving}
    for shift, colour, marker, (name, loss) in zip((-0.13, 0.13), (BLUE, ORANGE), "os",
                                                   cost.items(), strict=True):  # fmt: skip
        lost = (loss - data.loss).transpose("layer", "member", "head").values
        for layer, values in enumerate(lost):
            removed.plot(np.full(values.size, layer + shift), values.ravel(), marker, color=colour,
                         markersize=3, alpha=0.6, label=name if layer == 0 else None)  # fmt: skip
    removed.set(xticks=(0, 1), xticklabels=[name for name, *_ in LAYERS], xlim=(-0.5, 1.5),
                ylabel="nats lost", title="one head removed")  # fmt: skip
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
        ax.plot(back, curves.mean(0), "o-", color=dark, markersize=3,
                label=f"mean of {len(curves)} heads")  # fmt: skip
        ax.axhline(even, color=BLACK, linewidth=0.7, linestyle=":", label="even attention")
        ax.set(title=name, xlabel="tokens back", xticks=back, ylim=(0, 1))
        ax.legend()
    axes[0, 0].set_ylabel("attention")
    letter_panels(axes[0])
    return figure


def bars(ax: Axes, labels: list[str], rows: np.ndarray) -> None:
    """A bar for each column: its mean over the rows, with a 95 % interval."""
    estimates = [mean_estimate(column) for column in rows.T]
    spread = np.array([[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]])
    x = np.arange(len(labels))
    ax.bar(x, [e.value for e in estimates], 0.65, yerr=np.where(np.isfinite(spread), spread, 0),
           color=BLUE, error_kw={"linewidth": 0.8})  # fmt: skip
    ax.set_xticks(x, labels, rotation=30, ha="right", rotation_mode="anchor")
