"""Two layers on real text, before any induction head: local heads, useful one at a time.

terms         Loss with paths of each order, and with the order-1 terms of each layer. Refuted if
              virtual heads take off more than single ones, or if the first layer's terms are worth
              as much with the second layer's as without.
distance      Attention by distance, every head of every seed. Refuted if a head of the first layer
              peaks one token back, or if attention is even.
composition   Composition of all pairs against its null, and OV eigenvalues, before and after
              training. Refuted if K-composition lies above 0, or eigenvalue scores stay at 0.
training      Loss with paths of each order, OV eigenvalue scores and composition at every step
              kept. Refuted if virtual heads pay before single ones do.
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
    SKY,
    YELLOW,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import Record

LAYERS = (("layer 0", BLUE, SKY), ("layer 1", ORANGE, YELLOW))


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The four figures of the experiment."""
    data = record.data
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figures = {
        "terms": terms, "distance": distance, "composition": composition, "training": training,
    }  # fmt: skip
    return {name: make(alive) for name, make in figures.items()}


def terms(data: xr.Dataset) -> Figure:
    """Loss by order, by layer of order 1, and what single heads cost."""
    figure, axes = new_figure(1, 3, height=2.6, width_ratios=(1, 1.4, 1.4))
    by_order, by_layer, removed = axes[0]
    _bars(by_order, ["order 0", "≤ 1", "≤ 2"], data.order_loss.transpose("member", ...).values)
    labels = ["direct", "+ layer 0", "+ layer 1", "+ both", "all"]
    _bars(by_layer, labels, data.first_order_loss.transpose("member", ...).values)
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
    """Mean attention at each distance: one line a head, all seeds, and the mean."""
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


def composition(data: xr.Dataset) -> Figure:
    """z of all pairs by kind, and OV eigenvalue scores by layer; open before, full after."""
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=(1.5, 1))
    composing, copying = axes[0]
    rng = np.random.default_rng(0)  # spreads dots sideways, no more
    for i, (kind, colour) in enumerate(zip(data.kind.values, (BLUE, ORANGE, GREEN), strict=True)):
        z = [data[f"composition_z{when}"].sel(kind=kind).values.ravel() for when in _WHEN]
        _dots(composing, i, z, colour, rng)
    composing.set(xticks=range(3), xticklabels=[f"{k}-composition" for k in data.kind.values],
                  ylabel="z against the exact null")  # fmt: skip
    for layer, (_, dark, _) in enumerate(LAYERS):
        scores = [data[f"copying{when}"].isel(layer=layer).values.ravel() for when in _WHEN]
        _dots(copying, layer, scores, dark, rng)
    copying.set(xticks=(0, 1), xticklabels=[name for name, *_ in LAYERS],
                ylabel="OV eigenvalue score", ylim=(-1.05, 1.05))  # fmt: skip
    for ax in (composing, copying):
        ax.axhline(0, color=GREY, linewidth=0.6)
    composing.plot(
        [], [], "o", color=BLACK, fillstyle="none", markersize=3, label="before training"
    )
    composing.plot([], [], "o", color=BLACK, markersize=3, label="after")
    composing.legend(loc="upper right")
    letter_panels(axes[0])
    return figure


def training(data: xr.Dataset) -> Figure:
    """Means over seeds with intervals at every step kept."""
    figure, axes = new_figure(1, 3, height=2.5)
    losses, copying, composing = axes[0]
    steps = data.step.values
    by_order = data.order_loss_by_step
    for order, colour, label in zip(range(3), (GREY, BLUE, ORANGE), ("0", "≤ 1", "≤ 2"),
                                    strict=True):  # fmt: skip
        _over_steps(losses, by_order.isel(order=order), colour, f"order {label}")
    losses.set(ylabel="held-out loss, nats a token", title="paths of")
    for layer, (name, dark, _) in enumerate(LAYERS):
        mean = data.copying_by_step.isel(layer=layer).mean("head")
        _over_steps(copying, mean, dark, f"{name}, mean of heads")
    copying.set(ylabel="OV eigenvalue score", title="copying")
    for kind, colour in zip(data.kind.values, (BLUE, ORANGE, GREEN), strict=True):
        mean = data.composition_z_by_step.sel(kind=kind).mean(["writer", "reader"])
        _over_steps(composing, mean, colour, f"{kind}, mean of pairs")
    composing.set(ylabel="z against the exact null", title="composition")
    for ax in axes[0]:
        ax.set_xscale("symlog", linthresh=max(int(steps[1]), 1), linscale=0.5)
        ax.set_xticks(steps, [str(step) for step in steps])
        ax.minorticks_off()
        ax.set(xlabel="step of training")
        ax.legend(loc="lower left")
    for ax in (copying, composing):
        ax.axhline(0, color=GREY, linewidth=0.6)
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.4 * (high - low), high)  # room for the legend below the curves
    letter_panels(axes[0])
    return figure


def _over_steps(ax: Axes, values: xr.DataArray, colour: str, label: str) -> None:
    found = [mean_estimate(row) for row in values.transpose("step", "member").values]
    steps = values.step.values
    ax.plot(steps, [e.value for e in found], "o-", color=colour, markersize=3, label=label)
    low, high = ([getattr(e, end) for e in found] for end in ("low", "high"))
    if np.isfinite(low).all():
        ax.fill_between(steps, low, high, color=colour, alpha=0.25, linewidth=0)


_WHEN = ("_at_init", "")


def _dots(
    ax: Axes, x: int, values: list[np.ndarray], colour: str, rng: np.random.Generator
) -> None:
    for shift, fill, samples in zip((-0.2, 0.2), ("none", "full"), values, strict=True):
        spread = x + shift + rng.uniform(-0.12, 0.12, len(samples))
        ax.plot(spread, samples, "o", color=colour, fillstyle=fill, markersize=2.5,
                markeredgewidth=0.5, alpha=0.7)  # fmt: skip


def _bars(ax: Axes, labels: list[str], rows: np.ndarray) -> None:
    estimates = [mean_estimate(column) for column in rows.T]
    spread = np.array([[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]])
    x = np.arange(len(labels))
    ax.bar(x, [e.value for e in estimates], 0.65, yerr=np.where(np.isfinite(spread), spread, 0),
           color=BLUE, error_kw={"linewidth": 0.8})  # fmt: skip
    ax.set_xticks(x, labels, rotation=30, ha="right", rotation_mode="anchor")
