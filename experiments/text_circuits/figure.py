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
    letter_panels,
    new_figure,
    styled,
)
from circuitax.figures.term_panels import LAYERS, distance, terms
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import Record


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The four figures of the experiment."""
    data = record.data
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figures = {
        "terms": terms, "distance": distance, "composition": composition, "training": training,
    }  # fmt: skip
    return {name: make(alive) for name, make in figures.items()}


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
