"""The induction circuit on text read: composition, eigenvalues, repeats and worth of its paths."""

import xarray as xr
from matplotlib.figure import Figure

from circuitax.records.record import members_where
from circuitax.records.sample import Sample, mean_of
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats_of,
)
from experiments.induction.shared.figure_term_panels import terms
from experiments.induction.shared.head_roles import (
    PREFIX_SCORE,
    WORLDS,
    formed,
    of_induction,
)
from experiments.induction.shared.measures_term_worth import term_worth

__all__ = ["WORLDS", "composes", "composition", "eigenvalues", "in_the_corner", "looks_back"]
__all__ += ["matches", "patterns", "raises", "repeats", "stripes", "terms", "worth"]


def composes(data: xr.Dataset) -> dict[str, Sample]:
    """Leads of the K-composition of the previous-token head with the induction head, in z."""
    members = formed(data)
    previous, induction = members.previous_head, members.induction_head
    z = members.composition_z.isel(writer=previous, reader=induction)
    into_induction = members.composition_z.isel(reader=induction)
    is_previous = members.writer == previous
    lead = z - into_induction.where(~is_previous).mean("writer")
    rivals = into_induction.where(~(is_previous & (members.kind == "K")))
    return {
        "primed-k-composition": mean_of(z.sel(kind="K") - rivals.max(("kind", "writer"))),
        "primed-k-above-v": mean_of(lead.sel(kind="K") - lead.sel(kind="V")),
    }


def in_the_corner(data: xr.Dataset) -> dict[str, Sample]:
    """Copying of the induction head, and its matching through either first-layer head."""
    members = formed(data)
    matching = members.matching.isel(reader=members.induction_head)
    through_previous = matching.isel(writer=members.previous_head)
    least = matching.isel(writer=members.previous.isel(layer=0).argmin("head"))
    return {
        "primed-copying": mean_of(of_induction(members, "copying")),
        "primed-matching": mean_of(through_previous),
        "primed-matching-by-writer": mean_of(through_previous - least),
    }


def looks_back(data: xr.Dataset, offset: int = 1) -> Sample:
    """Mean attention of the previous-token head some tokens back; two back, of the best head."""
    attention = formed(data).attention.isel(layer=0, offset=offset)
    if offset > 1:
        return mean_of(attention.max("head"))
    return mean_of(attention.isel(head=formed(data).previous_head))


def matches(data: xr.Dataset, first_layer: bool = False) -> Sample:
    """Share of recurring pairs where the induction head, or a first-layer one, looks most there."""
    members = formed(data).sel(where="text")
    if first_layer:
        return mean_of(members.top_is_match.isel(layer=0).max("head"))
    return mean_of(of_induction(members, "top_is_match"))


def raises(data: xr.Dataset, exchanged: bool = False) -> Sample:
    """The lesser of the induction head's effect on the next token and its lead, in logits.

    The lead is over the best first-layer head; alone it would grow where that head does harm.
    """
    members = formed(data).sel(where="text")
    own, other = of_induction(members, "raises"), members.raises.isel(layer=0).max("head")
    if exchanged:
        own, other = other, own
    return mean_of(own - other.clip(min=0))


def stripes(data: xr.Dataset, first_layer: bool = False) -> Sample:
    """Share of the value-weighted attention of induction heads on the match in random repeats."""
    members = formed(data).sel(where="random")
    if first_layer:
        return mean_of(members.stripes.isel(layer=0).max("head"))
    second = members.stripes.isel(layer=1)
    # A seed whose second layer has no such head has no stripes.
    return mean_of(second.where(members.prefix.isel(layer=1) > PREFIX_SCORE).mean("head").fillna(0))


def worth(data: xr.Dataset) -> dict[str, Sample]:
    """Nats a token that paths of each order and single heads of each layer save."""
    return term_worth(formed(data)).named("primed")


def repeats(data: xr.Dataset) -> Figure:
    """Attention, value-weighted attention and logit effect at repeats, one dot for each head."""
    alive = members_where(data)
    return repeats_of(
        {"on text": alive.sel(where="text"), "random tokens": alive.sel(where="random")}
    )
