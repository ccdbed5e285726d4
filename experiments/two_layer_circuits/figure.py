"""Two layers: previous-token heads feed induction heads, by K-composition.

composition   z-scores of all pairs of heads; the pair of previous-token and induction head is
              marked. Refuted if the mark is not the brightest of its K panel.
patterns      What both heads attend to on random tokens, repeated. Refuted without two stripes: one
              beside the diagonal, one a period away.
repeats       Every head of every seed on repeats: how often it looks most at the token after the
              earlier copy, how much of what it moves comes from there, what it adds to the right
              logit. Refuted if heads of layer 0 do any of it, or induction heads do not.
eigenvalues   Copying against matching by the circuit composed with the previous-token head, and
              with another one (crosses). Refuted if induction heads are not in the upper right
              corner, or lie where they lay before training.
terms         Loss by order and by layer, without Q- or K-composition in the second layer's scores,
              and what removing each head costs, with patterns kept or not.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.head_panels import composition, eigenvalues, inducing, patterns
from circuitax.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.figures.term_panels import bars
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import Record


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The five figures of the experiment."""
    data = record.data
    return {
        "composition": composition(data),
        "patterns": patterns(data),
        "repeats": repeats(data),
        "eigenvalues": eigenvalues(data),
        "terms": terms(data),
    }


def repeats(data: xr.Dataset) -> Figure:
    """Attention, value-weighted attention and logit effect at predicted repeats, a dot a head."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figure, axes = new_figure(1, 3, height=2.3)
    panels = {
        "top_is_match": ("looks most at the match", "share of repeats"),
        "stripes": ("value-weighted attention there", "share"),
        "raises": ("added to the right logit", "logits over the mean token"),
    }
    places = np.linspace(-0.25, 0.25, alive.sizes["member"])[:, None]
    for ax, (name, (title, label)) in zip(axes[0], panels.items(), strict=True):
        for layer, (colour, marker) in enumerate(((BLUE, "s"), (ORANGE, "o"))):
            values = alive[name].isel(layer=layer).transpose("member", "head").values
            at = np.broadcast_to(layer + places, values.shape)
            ax.plot(at.ravel(), values.ravel(), marker, color=colour, markersize=2.5, alpha=0.7)
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.set(title=title, ylabel=label, xticks=(0, 1), xticklabels=("layer 0", "layer 1"))
    for ax in axes[0, :2]:
        ax.set_ylim(-0.03, 1.03)
    letter_panels(axes[0])
    return figure


def terms(data: xr.Dataset) -> Figure:
    """Loss on repeats: by order, by layer of order 1, by composition, and without each head."""
    members = inducing(data)
    figure, axes = new_figure(2, 2, height=4.6)
    (by_order, by_layer), (by_score, removed) = axes
    bars(by_order, ["order 0", "≤ 1", "≤ 2"], members.order_loss.transpose("member", ...).values)
    labels = ["direct", "+ layer 0", "+ layer 1", "+ both", "all"]
    bars(by_layer, labels, members.first_order_loss.transpose("member", ...).values)
    labels = ["all", "no Q", "no K", "neither"]
    bars(by_score, labels, members.score_loss.transpose("member", ...).values)
    titles = ((by_order, "paths of order"), (by_layer, "order-1 terms of"),
              (by_score, "scores of layer 1: composition terms"))  # fmt: skip
    for ax, title in titles:
        ax.axhline(float(data.uniform), color=BLACK, linewidth=0.8, linestyle=":", label="uniform")
        ax.set(ylabel="loss on repeats, nats", title=title, ylim=(0, 1.2 * float(data.uniform)))
    by_layer.legend(loc="upper right")
    _removals(removed, members)
    letter_panels(axes.flat)
    return figure


def _removals(ax: Axes, members: xr.Dataset) -> None:
    picks = {
        "previous": {"layer": 0, "head": members.previous_head},
        "induction": {"layer": 1, "head": members.induction_head},
    }
    for i, (name, colour, label) in enumerate(
        (("ablated", BLUE, "patterns react"), ("ablated_preserving", ORANGE, "patterns kept"))
    ):
        cost = members[name] - members.loss
        estimates = [mean_estimate(cost.isel(pick).values) for pick in picks.values()]
        x = np.arange(len(picks)) + 0.36 * i - 0.18
        spread = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
        ax.bar(x, [e.value for e in estimates], 0.34, yerr=_finite(spread), color=colour,
               label=label, error_kw={"linewidth": 0.8})  # fmt: skip
    ax.set(xticks=range(len(picks)), xticklabels=list(picks), title="head removed",
           ylabel="nats lost on repeats")  # fmt: skip
    ax.legend()


def _finite(spread: list[list[float]]) -> np.ndarray:
    values = np.array(spread)
    return np.where(np.isfinite(values), values, 0)
