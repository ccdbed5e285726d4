"""How the record of two-layer circuits on real text settles its claims."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import mean_estimate, mean_estimates
from circuitax.records.head_roles import PREFIX_SCORE, PREVIOUS_SCORE
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record


def measure(record: Record) -> Measured:
    """Means over seeds of what each claim names, and the claims whose precondition fails."""
    members = members_where(record.data)
    circuits = _circuits(members)
    return Measured(mean_estimates(_samples(members)) | circuits.estimates, circuits.unmet)


def _samples(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """One number for each seed, by the claim whose mean it is."""
    order, first = members.order_loss, members.first_order_loss
    by_direct = members.uniform - order.isel(order=0)
    by_heads, by_virtual = (order.isel(order=k - 1) - order.isel(order=k) for k in (1, 2))
    direct, layer_0, layer_1, both = (first.isel(selection=i) for i in range(4))
    given_direct, given_both = direct - layer_0, layer_1 - both
    n_ctx = int(members.n_ctx)
    even = np.mean(2 / (np.arange(n_ctx // 2, n_ctx) + 1))
    near = members.attention.isel(layer=0, offset=slice(0, 2)).sum("offset").mean("head")
    z = members.composition_z.sel(kind=["K", "V"])
    raised = (members.ablated - members.ablated_preserving).isel(layer=0).mean("head")
    return {
        "text-order-0": by_direct,
        "text-order-0-above-bigram": order.isel(order=0) - members.bigram_loss,
        "text-order-1-above-0": by_heads - by_direct,
        "text-order-1-above-2": by_heads - by_virtual,
        "text-order-2": by_virtual,
        "text-layer-0-redundant": given_direct - given_both,
        "text-layer-0-nearly-redundant": given_both / given_direct,
        "text-layer-1-above-0": (layer_0 - both) - given_both,
        "text-composition-below-null": z.mean(["kind", "writer", "reader"]),
        "text-copying-rises": (members.copying - members.copying_at_init).mean(["layer", "head"]),
        "text-local": near - even,
        "text-previous-head": members.attention.isel(layer=0, offset=1).max("head"),
        "text-positional": members.positional.mean("head"),
        "text-patterns-react": raised,
    }


def _circuits(members: xr.Dataset) -> Measured:
    """Claims about heads that a seed may not have."""
    before = members.attention.isel(layer=0, offset=1)
    prefix = members.prefix.isel(layer=1)
    previous, induction = before.argmax("head"), prefix.argmax("head")
    composed = members.composition_z.sel(kind="K").isel(writer=previous).max("reader")
    corner = np.minimum(
        members.copying.isel(layer=1, head=induction),
        members.matching.isel(writer=previous, reader=induction),
    )
    first = "a previous-token head in the first layer"
    cases = (
        ("text-k-composition", composed, before, PREVIOUS_SCORE, first),
        ("text-corner", corner, prefix, PREFIX_SCORE, "an induction head"),
    )
    measured, unmet = {}, {}
    for name, values, score, threshold, what in cases:
        best = score.max("head").values
        has = best > threshold
        if has.any():
            measured[name] = mean_estimate(values.values[has])
        else:
            unmet[name] = (
                f"none of {has.size} seeds has {what}: the best score is {best.max():.2f}, "
                f"{threshold} is asked for"
            )
    return Measured(measured, unmet)
