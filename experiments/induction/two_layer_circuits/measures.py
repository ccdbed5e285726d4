"""Measured values of the claims on two-layer circuits, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import (
    Estimate,
    exact,
    mean_estimate,
    mean_estimates,
    share_estimate,
)
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.induction.shared.head_roles import PREFIX_SCORE, PREVIOUS_SCORE, composition_rise
from experiments.induction.two_layer_circuits.claims import CLAIMS

# A head with an OV eigenvalue score below this erases, as in `stream_use`.
ERASES = -0.5
CORNER = 0.7  # of both scores, from which a head lies in the corner
# Parts of what order 1 adds to the lead that order 2 adds, or costs, in the worlds of its null.
SECOND_ADDS = (0.1, 0.2, 0.3, 1.0, -0.1, -0.3, -0.5, -1.0)
# Claims on a difference within each model; its sides are exchanged for their null.
DIFFERENCES = (
    *("composition-overall", "composition-some", "composition-avoided"),
    *("induction-raises", "k-above-v", "k-composition-pays", "previous-through-patterns"),
)


def measure(record: Record) -> Measured:
    """Measured values over the seeds that have the circuit, and the claims that lack it."""
    data = record.data
    measured = {"ablation-identity": exact(data.identity.where(data.alive).max())}
    members = members_where(data, "has_induction")
    n = members.sizes["member"]
    if n < 2:
        why = f"only {n} of {data.sizes['member']} seeds have an induction head"
        return Measured(measured, unmet_rest(CLAIMS, measured, why))
    measured |= mean_estimates(_samples(members))
    measured["copying-corner"] = _share_in_corner(members)
    measured["k-composition-first"] = share_estimate(_largest_joins(members))
    by_writer = np.sort(members.composition_z.sel(kind="K").max("reader").values, axis=1)
    measured["k-composition-second"] = share_estimate(by_writer[:, -2] > 3)
    erases = (members.copying < ERASES).any(["layer", "head"])
    measured["erasing-heads"] = share_estimate(erases)
    mixed = members.isel(member=(members.prefix.isel(layer=1) <= PREFIX_SCORE).any("head").values)
    if mixed.sizes["member"] < 2:
        count = mixed.sizes["member"]
        why = f"only {count} of {n} seeds have a second-layer head that is no induction head"
        return Measured(measured, dict.fromkeys(("corner-alone", "preserving-induction"), why))
    measured["corner-alone"] = mean_estimate(_corner_lead(mixed).values)
    measured["preserving-induction"] = share_estimate(_induction_costs_most(mixed))
    return Measured(measured, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: weights before training, other heads, and sides and layers exchanged."""
    members = members_where(record.data, "has_induction")
    if members.sizes["member"] < 2:
        return {}
    names = ("composition_z", "copying", "matching")
    start = record.data.assign({name: record.data[f"{name}_at_init"] for name in names})
    samples, first_layer = _samples(members), members.isel(layer=0)
    layers_exchanged = members.first_order_loss.isel(selection=[0, 2, 1, 3, 4])
    alike = _samples(members.assign(first_order_loss=layers_exchanged))
    direct, layer_1 = (members.first_order_loss.isel(selection=i) for i in (0, 2))
    return {
        "untrained": measured_again(measure, [with_data(record, start)]),
        "mismatched": {
            "induction-attends": [mean_estimate(first_layer.top_is_match.max("head"))],
            "induction-stripes": [mean_estimate(first_layer.stripes.max("head"))],
        },
        "permuted": exchanged({name: samples[name] for name in DIFFERENCES})
        | {
            "layer-0-alone": [mean_estimate(alike["layer-0-alone"])],
            "preserving-induction": _costs_shuffled(members),
        },
        # Parts of the loss that layers leave multiply, or savings of both add up.
        "false world": {
            "layer-0-redundant": [mean_estimate(layer_1 / direct)],
            "layer-1-alone": [mean_estimate(1 - samples["layer-0-alone"])],
            "order-1-above-2": [
                mean_estimate(_second_order(_second_adds(members, part))) for part in SECOND_ADDS
            ],
        },
    }


def _second_adds(members: xr.Dataset, part: float) -> xr.Dataset:
    """The data where order 2 adds a part of what order 1 adds to the lead, or costs it.

    The loss in the end stays as it is, or that after order 1 where order 2 costs.
    """
    first, middle, last = (_leads(members).isel(order=i) for i in range(3))
    if part > 0:
        middle = (first * part + last) / (1 + part)
    else:
        last = middle + part * (middle - first)
    leads = xr.concat([first, middle, last], "order")
    return members.assign(order_loss=np.log1p(np.expm1(members.uniform) * np.exp(-leads)))


def _leads(members: xr.Dataset) -> xr.DataArray:
    """Leads of the right token over all others, were these alike, that make the losses by order.

    A token that leads by ``a`` has the loss ``log(1 + (d_vocab - 1) e^-a)``.
    """
    return -np.log(np.expm1(members.order_loss) / np.expm1(members.uniform))


def _second_order(members: xr.Dataset) -> xr.DataArray:
    """What paths of order 2 add to the lead over what those of order 1 do."""
    added = _leads(members).diff("order")
    return added.isel(order=1) / added.isel(order=0)


@measures("copying-corner")
def _share_in_corner(members: xr.Dataset) -> Estimate:
    """Share of a seed's second-layer induction heads that copy and match."""
    matching = members.matching.isel(writer=members.previous_head).rename(reader="head")
    corner = np.minimum(members.copying.isel(layer=1), matching) >= CORNER
    inductive = members.prefix.isel(layer=1) > PREFIX_SCORE
    shares = (corner & inductive).sum("head") / inductive.sum("head")
    return mean_estimate(shares, bounds=(0, 1))


def _costs_shuffled(members: xr.Dataset) -> list[Estimate | None]:
    """Shares of models in which an induction head costs most, costs shuffled among all heads."""
    mixed = members.isel(member=(members.prefix.isel(layer=1) <= PREFIX_SCORE).any("head").values)
    if mixed.sizes["member"] < 2:
        return [None]
    costs = mixed.ablated_preserving.transpose("member", "layer", "head")
    rng, found = np.random.default_rng(0), list[Estimate | None]()
    for _ in range(100):
        flat = rng.permuted(costs.values.reshape(len(costs), -1), axis=1)
        shuffled = costs.copy(data=flat.reshape(costs.shape))
        found.append(
            share_estimate(_induction_costs_most(mixed.assign(ablated_preserving=shuffled)))
        )
    return found


@measures(
    "composition-*",
    "induction-*",
    "layer-*",
    "k-above-v",
    "k-composition-pays",
    "k-composition-z",
    "matching-corner",
    "order-1-above-2",
    "previous-through-patterns",
)
def _samples(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """One number for each seed, by the claim whose mean it is."""
    previous, induction = members.previous_head, members.induction_head
    z = members.composition_z.isel(writer=previous, reader=induction)
    into_induction = members.composition_z.isel(reader=induction)
    k_above_v = into_induction.sel(kind="K") - into_induction.sel(kind="V")
    others = k_above_v.where(members.writer != previous)
    composed = composition_rise(members)
    first, scores = members.first_order_loss, members.score_loss
    direct, layer_0, layer_1, both = (first.isel(selection=i) for i in range(4))
    raised = (members.ablated - members.ablated_preserving).isel(layer=0, head=previous)
    costliest = members.ablated_preserving.isel(layer=1).argmax("head")

    def of_induction(name: str) -> xr.DataArray:
        return members[name].isel(layer=1, head=induction)

    return {
        "k-composition-z": z.sel(kind="K"),
        "k-above-v": k_above_v.isel(writer=previous) - others.mean("writer"),
        "matching-corner": members.matching.isel(writer=previous, reader=induction),
        "composition-overall": composed["mean"],
        "composition-some": composed["above"],
        "composition-avoided": composed["below"],
        # A head chosen by its attention would be asked what chose it.
        "induction-attends": members.top_is_match.isel(layer=1, head=costliest),
        "induction-raises": of_induction("raises") - members.raises.isel(layer=0).max("head"),
        "induction-stripes": of_induction("stripes"),
        "order-1-above-2": _second_order(members),
        "layer-0-redundant": (layer_1 - both) / (direct - layer_0),
        "layer-1-alone": (direct - layer_1) / (direct - both),
        "layer-0-alone": (direct - layer_0) / (direct - both),
        "k-composition-pays": scores.isel(score_selection=2) - scores.isel(score_selection=1),
        "previous-through-patterns": raised,
    }


def _largest_joins(members: xr.Dataset) -> xr.DataArray:
    """Whether the pair of largest K-composition is one of previous-token and induction heads."""
    z = members.composition_z.sel(kind="K")
    writes = members.previous.isel(layer=0).rename(head="writer") > PREVIOUS_SCORE
    reads = members.prefix.isel(layer=1).rename(head="reader") > PREFIX_SCORE
    return z.where(writes & reads).max(["writer", "reader"]) == z.max(["writer", "reader"])


def _induction_costs_most(members: xr.Dataset) -> xr.DataArray:
    """Whether, of all heads, an induction head costs most when patterns are kept."""
    cost = members.ablated_preserving - members.loss
    inductive = cost.isel(layer=1).where(members.prefix.isel(layer=1) > PREFIX_SCORE)
    return inductive.max("head") == cost.max(["layer", "head"])


def _corner_lead(members: xr.Dataset) -> xr.DataArray:
    """Lead of the induction head in the corner over the best head that is none."""
    matching = members.matching.isel(writer=members.previous_head).rename(reader="head")
    corner = np.minimum(members.copying.isel(layer=1), matching)
    others = corner.where(members.prefix.isel(layer=1) <= PREFIX_SCORE).max("head")
    return corner.isel(head=members.induction_head) - others
