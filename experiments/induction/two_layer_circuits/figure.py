"""Two layers: previous-token heads feed induction heads, by K-composition."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line
from circuitax.figures.palette import GREEN, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats_of,
)
from experiments.induction.shared.figure_term_panels import ORDERS, SELECTIONS, loss_bars


def repeats(record: Record) -> Figure:
    """Attention, value-weighted attention and logit effect at repeats, one dot for each head."""
    alive = members_where(record.data).assign_coords(layer=range(2))
    return repeats_of({f"layer {i}": alive.sel(layer=[i]) for i in range(2)})


def terms(record: Record) -> Figure:
    """Loss on repeats: by order, by layer of order 1, by composition, and without each head."""
    members = members_where(members_where(record.data), "has_induction", otherwise="alive")
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


FIGURES = (
    FigureSpec(
        "composition",
        composition,
        message="One head stands out: the previous-token head feeds the keys of layer 1.",
        caption="The z-scores of all pairs of heads; the pair with the best induction head is "
        "marked.",
        refuted="Refuted if the largest z of the K panel is outside the previous-token head's "
        "column.",
    ),
    FigureSpec(
        "patterns",
        patterns,
        message="One head attends to the previous token; the other to the token after the earlier "
        "copy.",
        caption="Both on random tokens, repeated, each named by a letter; arcs are as thick as "
        "the attention.",
        refuted="Refuted without two stripes: one beside the diagonal, one a period away.",
    ),
    FigureSpec(
        "repeats",
        repeats,
        message="Heads of layer 1 attend to the token after the earlier copy and raise the right "
        "token; heads of layer 0 do neither.",
        caption="Every head of every seed on repeats: how often its attention is largest there, "
        "the share of its moved value from there, its effect on the right logit.",
        refuted="Refuted if heads of layer 0 do any of this, or induction heads do not.",
    ),
    FigureSpec(
        "eigenvalues",
        eigenvalues,
        message="After training, induction heads copy, and match through the output of the "
        "previous-token head.",
        caption="Copying against matching by the composed circuit; crosses: composed with another "
        "head.",
        refuted="Refuted if induction heads are not in the upper right corner, or lie where they "
        "lay before training.",
    ),
    FigureSpec(
        "terms",
        terms,
        message="Single heads of layer 1 predict repeats, and need K-composition to find them.",
        caption="Loss by order and by layer, without Q- or K-composition in the second layer's "
        "scores, and the cost of removing each head, with patterns frozen or not.",
    ),
)
