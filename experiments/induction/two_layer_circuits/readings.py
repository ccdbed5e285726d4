"""Two-layer circuits: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, exactly, mean_of, share_of
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats_of,
)
from experiments.induction.shared.figure_term_panels import ORDERS, SELECTIONS, loss_bars
from experiments.induction.shared.head_roles import (
    PREFIX_SCORE,
    PREVIOUS_SCORE,
    WORLDS,
    formed,
    of_induction,
)

__all__ = ["WORLDS", "attends", "composes", "composition", "eigenvalues", "identity"]
__all__ += ["in_the_corner", "over_training", "patterns", "raises", "repeats", "second_order"]
__all__ += ["stripes", "terms"]

CORNER = 0.7  # of both scores, from which a head lies in the corner


def composes(data: xr.Dataset) -> dict[str, Sample]:
    """K-composition of the previous-token head with the induction head, in deviations z."""
    members = formed(data)
    previous, induction = members.previous_head, members.induction_head
    into_induction = members.composition_z.isel(reader=induction)
    lead = into_induction.sel(kind="K") - into_induction.sel(kind="V")
    others = lead.where(members.writer != previous).mean("writer")
    z = members.composition_z.sel(kind="K")
    writes = members.previous.isel(layer=0).rename(head="writer") > PREVIOUS_SCORE
    reads = members.prefix.isel(layer=1).rename(head="reader") > PREFIX_SCORE
    pairs = ["writer", "reader"]
    by_writer = np.sort(z.max("reader").values, axis=1)
    return {
        "k-composition-z": mean_of(z.isel(writer=previous, reader=induction)),
        "k-composition-first": share_of(z.where(writes & reads).max(pairs) == z.max(pairs)),
        "k-composition-second": share_of(by_writer[:, -2] > 3),
        "k-above-v": mean_of(lead.isel(writer=previous) - others),
    }


def in_the_corner(data: xr.Dataset) -> dict[str, Sample]:
    """Share of a seed's induction heads that copy and match, and matching of the best of them."""
    members = formed(data)
    matching = members.matching.isel(writer=members.previous_head).rename(reader="head")
    corner = np.minimum(members.copying.isel(layer=1), matching) >= CORNER
    inductive = members.prefix.isel(layer=1) > PREFIX_SCORE
    shares = (corner & inductive).sum("head") / inductive.sum("head")
    return {
        "copying-corner": mean_of(shares, bounds=(0, 1)),
        "matching-corner": mean_of(matching.isel(head=members.induction_head)),
    }


def over_training(data: xr.Dataset) -> dict[str, Sample]:
    """Composition after training less before: mean z, and shares of pairs and kinds beyond 3."""
    members, dims = formed(data), ["kind", "writer", "reader"]
    after, before = members.composition_z, members.composition_z_at_init
    rises = {
        "composition-overall": after - before,
        "composition-some": (after > 3) * 1.0 - (before > 3),
        "composition-avoided": (after < -3) * 1.0 - (before < -3),
    }
    return {name: mean_of(rise.mean(dims)) for name, rise in rises.items()}


def attends(data: xr.Dataset, first_layer: bool = False) -> Sample:
    """Share of repeats at which a head looks most at the token after the earlier copy.

    The head of the second layer whose removal costs most, since one that is chosen by its attention
    would be asked what chose it; or the head of the first layer that does so most.
    """
    members = formed(data)
    if first_layer:
        return mean_of(members.top_is_match.isel(layer=0).max("head"))
    costliest = members.ablated_preserving.isel(layer=1).argmax("head")
    return mean_of(members.top_is_match.isel(layer=1, head=costliest))


def raises(data: xr.Dataset) -> Sample:
    """Direct effect on the right logit, the induction head's less the best first-layer head's."""
    members = formed(data)
    return mean_of(of_induction(members, "raises") - members.raises.isel(layer=0).max("head"))


def stripes(data: xr.Dataset, first_layer: bool = False) -> Sample:
    """Value-weighted attention one period back, of the induction head or the best of layer 0."""
    members = formed(data)
    if first_layer:
        return mean_of(members.stripes.isel(layer=0).max("head"))
    return mean_of(of_induction(members, "stripes"))


def second_order(data: xr.Dataset) -> Sample:
    """What paths of order 2 add to the right token's lead over what those of order 1 do.

    A token that leads all others, which are alike, by ``a`` has the loss
    ``log(1 + (d_vocab - 1) e^-a)``; leads have no floor, as losses have.
    """
    members = formed(data)
    leads = -np.log(np.expm1(members.order_loss) / np.expm1(members.uniform))
    added = leads.diff("order")
    return mean_of(added.isel(order=1) / added.isel(order=0))


def identity(data: xr.Dataset) -> Sample:
    """Greatest difference of pattern-preserving ablation and the logits less a head's paths."""
    return exactly(data.identity.where(data.alive).max())


def repeats(data: xr.Dataset) -> Figure:
    """Attention, value-weighted attention and logit effect at repeats, one dot for each head."""
    alive = members_where(data).assign_coords(layer=range(2))
    return repeats_of({f"layer {i}": alive.sel(layer=[i]) for i in range(2)})


def terms(data: xr.Dataset) -> Figure:
    """Loss on repeats: by order, by layer of order 1, and by composition."""
    members = members_where(members_where(data), "has_induction", otherwise="alive")
    figure, axes = new_figure(1, 3, height=2.6)
    by_order, by_layer, by_score = axes[0]
    composed = ("all", "no Q", "no K", "neither")
    loss_bars(by_order, ORDERS, members.order_loss, "paths of order")
    loss_bars(by_layer, SELECTIONS, members.first_order_loss, "order-1 terms of")
    loss_bars(by_score, composed, members.score_loss, "composition in layer 1's scores")
    for ax in axes[0]:
        reference_line(ax, y=members.uniform, label="uniform")
        ax.set(ylabel="loss on repeats, nats", ylim=(0, 1.2 * float(members.uniform)))
    by_layer.legend(loc="upper right")
    letter_panels(axes[0])
    seeds = members.sizes["member"]
    sample_note(figure, f"mean and 95 % interval of {seeds} seeds with an induction head")
    return figure
