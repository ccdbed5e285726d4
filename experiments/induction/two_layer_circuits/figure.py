"""Two layers: previous-token heads feed induction heads, by K-composition.

composition   One head stands out: the previous-token head feeds the keys of layer 1.
              The z-scores of all pairs of heads; the pair with the best induction head is marked.
              Refuted if the largest z of the K panel is outside the previous-token head's column.
patterns      One head attends to the previous token; the other to the token after the earlier copy.
              Both on random tokens, repeated, each named by a letter; arcs are as thick as the
              attention. Refuted without two stripes: one beside the diagonal, one a period away.
repeats       Heads of layer 1 attend to the token after the earlier copy and raise the right token;
              heads of layer 0 do neither. Every head of every seed on repeats: how often its
              attention is largest there, the share of its moved value from there, its effect on the
              right logit. Refuted if heads of layer 0 do any of this, or induction heads do not.
eigenvalues   After training, induction heads copy, and match through the output of the
              previous-token head. Copying against matching by the composed circuit; crosses:
              composed with another head. Refuted if induction heads are not in the upper right
              corner, or lie where they lay before training.
terms         Single heads of layer 1 predict repeats, and need K-composition to find them. Loss by
              order and by layer, without Q- or K-composition in the second layer's scores, and the
              cost of removing each head, with patterns frozen or not.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line
from circuitax.figures.palette import GREEN, PINK
from circuitax.figures.style import letter_panels, new_figure, sample_note, styled
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats,
)
from experiments.induction.shared.figure_term_panels import ORDERS, SELECTIONS, loss_bars


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The five figures of the experiment."""
    data = record.data
    alive = members_where(data).assign_coords(layer=range(2))
    layers = {f"layer {i}": alive.sel(layer=[i]) for i in range(2)}
    return {
        "composition": composition(data),
        "patterns": patterns(data),
        "repeats": repeats(layers),
        "eigenvalues": eigenvalues(data),
        "terms": terms(members_where(data, "has_induction", otherwise="alive")),
    }


def terms(members: xr.Dataset) -> Figure:
    """Loss on repeats: by order, by layer of order 1, by composition, and without each head."""
    figure, axes = new_figure(2, 2, height=4.6)
    (by_order, by_layer), (by_score, removed) = axes
    composed = ("all", "no Q", "no K", "neither")
    loss_bars(by_order, ORDERS, members.order_loss, "paths of order")
    loss_bars(by_layer, SELECTIONS, members.first_order_loss, "order-1 terms of")
    loss_bars(by_score, composed, members.score_loss, "scores of layer 1: composition terms")
    for ax in (by_order, by_layer, by_score):
        reference_line(ax, y=members.uniform, label="uniform")
        ax.set(ylabel="loss on repeats, nats", ylim=(0, 1.2 * float(members.uniform)))
    by_layer.legend(loc="upper right")
    _removals(removed, members)
    letter_panels(axes.flat)
    seeds = members.sizes["member"]
    sample_note(figure, f"mean and 95 % interval of {seeds} seeds with an induction head")
    return figure


def _removals(ax: Axes, members: xr.Dataset) -> None:
    """Effects of the two named heads, by their own output alone and through patterns too."""
    reacting, kept = members.ablated - members.loss, members.ablated_preserving - members.loss
    for shift, cost, colour, label in (
        (-0.18, reacting, GREEN, "patterns react"),
        (0.18, kept, PINK, "patterns kept"),
    ):
        previous = cost.isel(layer=0, head=members.previous_head)
        induction = cost.isel(layer=1, head=members.induction_head)
        mean_bars(ax, np.stack([previous, induction]), colour, shift=shift, width=0.34, label=label)
    ax.set_xticks((0, 1), ("previous-token", "induction"))
    ax.set(title="head removed", ylabel="nats lost on repeats")
    ax.legend()
