"""Measured values of the claims on the induction circuit on text, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import mean_estimate, mean_estimates
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.null_samples import DRAWS, exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.induction.shared.head_roles import NO_MATCH, PREFIX_SCORE, composition_rise
from experiments.induction.shared.measures_term_worth import term_worth, without_redundancy
from experiments.induction.text_induction_circuits.claims import CLAIMS, CORNER

# Claims on a difference within each model; its sides are exchanged for their null.
DIFFERENCES = (
    *("primed-k-above-v", "primed-k-composition", "primed-composition-overall"),
    *("primed-composition-some", "primed-composition-avoided"),
    *("primed-order-1-above-2", "primed-layer-0-redundant"),
    *("primed-layer-1-above-0", "primed-previous-through-patterns", "primed-matching-by-writer"),
)


def measure(record: Record) -> Measured:
    """Means over the seeds that have the circuit, or why there are none."""
    members = members_where(record.data, "has_induction")
    n = members.sizes["member"]
    if n < 2:
        why = f"only {n} of {record.data.sizes['member']} primed seeds have an induction head"
        return Measured({}, unmet_rest(CLAIMS, {}, why))
    measured = mean_estimates(_samples(members))
    outside = _outside_corner(members)
    if len(outside) < 2:
        why = f"only {len(outside)} of {n} seeds have a second-layer head that matches nothing"
        return Measured(measured, {"primed-corner-alone": why})
    return Measured(measured | {"primed-corner-alone": mean_estimate(outside, bounds=(0, 1))}, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: weights before training, other heads, and sides exchanged."""
    members = members_where(record.data, "has_induction")
    if members.sizes["member"] < 2:
        return {}
    names = ("composition_z", "copying", "matching")
    start = record.data.assign({name: record.data[f"{name}_at_init"] for name in names})
    samples, first = _samples(members), members.isel(layer=0)
    worth = term_worth(members)
    return {
        "untrained": measured_again(measure, [with_data(record, start)]),
        "mismatched": {
            "primed-previous": [mean_estimate(first.attention.isel(offset=2).max("head"))],
            "primed-attends": [mean_estimate(each) for each in _other_heads(members)],
            "primed-stripes": [mean_estimate(_of_first_layer(members))],
        },
        "permuted": exchanged({name: samples[name] for name in DIFFERENCES})
        | {"primed-raises": [mean_estimate(each) for each in _raises_exchanged(members)]},
        "false world": {
            "primed-layer-0-nearly-redundant": without_redundancy(
                worth.first_alone, worth.first_last
            )
        },
    }


@measures(
    "primed-composition-*",
    "primed-layer-*",
    "primed-k-*",
    "primed-attends",
    "primed-copying",
    "primed-matching",
    "primed-matching-by-writer",
    "primed-order-1-above-2",
    "primed-previous",
    "primed-previous-through-patterns",
    "primed-raises",
    "primed-stripes",
)
def _samples(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """One number for each seed, by the claim whose mean it is."""
    previous, induction = members.previous_head, members.induction_head
    z = members.composition_z.isel(writer=previous, reader=induction)
    into_induction = members.composition_z.isel(reader=induction)
    is_previous = members.writer == previous
    lead = z - into_induction.where(~is_previous).mean("writer")
    rivals = into_induction.where(~(is_previous & (members.kind == "K")))
    composed = composition_rise(members)
    matching = members.matching.isel(reader=induction)
    through_previous = matching.isel(writer=previous)
    least = members.previous.isel(layer=0).argmin("head")
    worth = term_worth(members)
    first_head = {"layer": 0, "head": previous}
    raised = (members.ablated - members.ablated_preserving).isel(first_head)
    on_text, on_random = (members.sel(where=where) for where in ("text", "random"))
    second = on_random.stripes.isel(layer=1)
    # A seed whose second layer has no such head has no stripes.
    stripes = second.where(members.prefix.isel(layer=1) > PREFIX_SCORE).mean("head").fillna(0)

    def of_induction(part: xr.Dataset, name: str) -> xr.DataArray:
        return part[name].isel(layer=1, head=induction)

    return {
        "primed-previous": members.attention.isel(first_head).isel(offset=1),
        "primed-k-composition": z.sel(kind="K") - rivals.max(("kind", "writer")),
        "primed-k-above-v": lead.sel(kind="K") - lead.sel(kind="V"),
        "primed-composition-overall": composed["mean"],
        "primed-composition-some": composed["above"],
        "primed-composition-avoided": composed["below"],
        "primed-copying": of_induction(members, "copying"),
        "primed-matching": through_previous,
        "primed-matching-by-writer": through_previous - matching.isel(writer=least),
        "primed-attends": of_induction(on_text, "top_is_match"),
        "primed-raises": lesser_lead(*_raises(members)),
        "primed-stripes": stripes,
        "primed-order-1-above-2": worth.heads - worth.virtual,
        "primed-layer-0-redundant": worth.first_alone - worth.first_last,
        "primed-layer-0-nearly-redundant": worth.first_last / worth.first_alone,
        "primed-layer-1-above-0": worth.second_last - worth.first_last,
        "primed-previous-through-patterns": raised,
    }


def _raises(members: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Effect on the token that comes next, of the induction head and the best first-layer one."""
    raises = members.raises.sel(where="text")
    return raises.isel(layer=1, head=members.induction_head), raises.isel(layer=0).max("head")


def lesser_lead(own: xr.DataArray, other: xr.DataArray) -> xr.DataArray:
    """The lesser of an effect and its lead over another one, in each seed.

    A lead alone would grow where the other head does harm.
    """
    return own - other.clip(min=0)


def _raises_exchanged(members: xr.Dataset) -> list[xr.DataArray]:
    """The same with both heads exchanged at random in each seed."""
    own, other = _raises(members)
    swaps = np.random.default_rng(0).random((DRAWS, own.size)) < 0.5
    drawn = xr.DataArray(swaps, dims=("draw", *own.dims))
    return list(
        lesser_lead(other.where(drawn, own), own.where(drawn, other)).transpose("draw", ...)
    )


def _other_heads(members: xr.Dataset) -> list[xr.DataArray]:
    """Attention to the match of the best first-layer head, and of the other second-layer one."""
    attends = members.top_is_match.sel(where="text")
    first, second = (attends.isel(layer=layer) for layer in (0, 1))
    second = second.where(second["head"] != members.induction_head)
    return [first.max("head"), second.max("head")]


def _of_first_layer(members: xr.Dataset) -> xr.DataArray:
    """Share of attention on the stripes, of the first-layer head that has most there."""
    return members.stripes.sel(where="random").isel(layer=0).max("head")


def _outside_corner(members: xr.Dataset) -> np.ndarray:
    """Share of a seed's second-layer heads that match nothing outside the corner."""
    second = members.isel(layer=1)
    matching = members.matching.isel(writer=members.previous_head).rename(reader="head")
    outside = np.minimum(second.copying, matching) < CORNER
    share = outside.where(second.prefix < NO_MATCH).mean("head").values
    return share[np.isfinite(share)]
