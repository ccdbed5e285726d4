"""Measured values of the claims on head roles, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import (
    Estimate,
    exact,
    mean_estimate,
    mean_estimates,
    share_estimate,
)
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import shuffled
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only
from experiments.induction.head_roles.claims import CLAIMS, FULL
from experiments.induction.shared.head_roles import FOUND, INDUCTION, PREVIOUS

# Claims measured on texts, or pairs of texts, that all seeds share.
ON_TEXTS = (
    *("previous-through-keys", "edge-largest", "patching-moves", "direct-largest"),
    *("norm-costs", "norm-absorbed", "memory-writes-against"),
)
N_MIXED = 200
# Heads that win back less of the lead than this have no way that could be told from noise.
LEAST_LEAD = 0.1


def measure(record: Record) -> Measured:
    """Measured values over the seeds that have the circuit, and over the full transformers."""
    members = members_where(record.data, "has_induction")
    full = members_where(record.data, "full_alive")
    measured: dict[str, Estimate] = {}
    unmet: dict[str, str] = {}
    if members.sizes["member"] < 2:
        why = f"only {members.sizes['member']} seeds have an induction head"
        unmet |= {claim.id: why for claim in CLAIMS if claim.selection == FOUND}
    else:
        measured |= _circuits(members)
    if not full.sizes["full_member"]:
        why = "every full transformer has diverged"
        unmet |= {claim.id: why for claim in CLAIMS if claim.selection == FULL}
    else:
        measured |= _components(full)
    return Measured(over_seeds_only(measured, ON_TEXTS), unmet)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other heads, places and kinds, and weights before training."""
    members = members_where(record.data, "has_induction")
    full = members_where(record.data, "full_alive")
    found: dict[str, dict[str, Draws]] = {"mismatched": {}, "permuted": {}, "untrained": {}}
    if members.sizes["member"] > 1:
        z = members.overlap_z.isel(writer=members.previous_head, reader=members.induction_head)
        rngs = [np.random.default_rng(i) for i in range(N_MIXED)]
        mixed = [shuffled(members, ["role"], "head", rng, ["member", "layer"]) for rng in rngs]
        moved = [shuffled(members, ["direct"], "component", rng, ["member"]) for rng in rngs]
        found["mismatched"]["previous-through-keys"] = _keys_of_others(members)
        found["permuted"] = {
            "edge-largest": [share_estimate(_largest_joins(one)) for one in mixed],
            "direct-largest": [share_estimate(_induction_adds_most(one)) for one in moved],
            "patching-moves": [mean_estimate(_won_back(members, k)) for k in (-1, 0, 2, 3)],
            "overlap-keys": [mean_estimate(z.sel(kind=kind)) for kind in "QV"],
        }
    if full.sizes["full_member"]:
        start = full.alignment_full_at_init.min("cell")
        found["untrained"] = {"memory-writes-against": [mean_estimate(start)]}
        lost = full.nats_lost.sel(replaced=["mean", "resample"]).stack(one=["replaced", "cell"])
        found["permuted"] |= exchanged({"norm-costs": full.norm_price}) | {
            "norm-absorbed": [
                mean_estimate(row) for row in _of_saved(full, lost).transpose("one", ...)
            ]
        }
    return found


@measures(
    "direct-largest", "edge-largest", "overlap-keys", "patching-moves", "previous-through-keys"
)
def _circuits(members: xr.Dataset) -> dict[str, Estimate]:
    """Measurements of seeds with an induction head."""
    previous, induction = members.previous_head, members.induction_head
    routes = members.routes.isel(writer=previous)
    z = members.overlap_z.isel(writer=previous, reader=induction)
    samples = {
        "previous-through-keys": routes.sel(route="K") / routes.sel(route="all"),
        "patching-moves": _won_back(members, 1),
        "overlap-keys": z.sel(kind="K"),
        "overlap-Q": z.sel(kind="Q"),
        "overlap-V": z.sel(kind="V"),
        "moves-name": members.moves_name.isel(layer=1, head=induction),
        "virtual-size": members.virtual.isel(writer=previous, reader=induction),
    }
    return mean_estimates(samples) | {
        "edge-largest": share_estimate(_largest_joins(members)),
        "direct-largest": share_estimate(_induction_adds_most(members)),
    }


def _won_back(members: xr.Dataset, offset: int) -> xr.DataArray:
    """Lead won back so many places behind the swapped tokens, over that of all places by size."""
    before = members.stream.sel(place="into layer 1")
    there = before.isel(position=members.swapped.values + offset).sum("position")
    return there / np.abs(before).sum("position")


def _keys_of_others(members: xr.Dataset) -> Draws:
    """Share through keys of each first-layer head that wins back a lead and is not the expected."""
    others = np.arange(members.sizes["writer"]) != members.previous_head.values[:, None]
    routes = members.routes.transpose("member", "writer", "route")
    keys, every = (routes.sel(route=route).values[others] for route in ("K", "all"))
    winning = every > LEAST_LEAD
    return (keys[winning] / every[winning]).tolist() if winning.any() else [None]


@measures("norm-*", "components-close", "memory-writes-against")
def _components(full: xr.Dataset) -> dict[str, Estimate]:
    """Measurements of full transformers."""
    lost = full.nats_lost
    return {
        "components-close": exact(full.remainder_full.max()),
        "norm-costs": mean_estimate(full.norm_price),
        "norm-absorbed": mean_estimate(_of_saved(full, full.norm_price)),
        "memory-writes-against": mean_estimate(full.alignment_full.min("cell")),
        "bandwidth-reused": mean_estimate(full.bandwidth_reused - full.bandwidth_null),
        "bandwidth-effective": mean_estimate(full.bandwidth_effective),
        "zero-above-mean": mean_estimate(
            (lost.sel(replaced="zero") - lost.sel(replaced="mean")).mean("cell")
        ),
    }


def _of_saved(full: xr.Dataset, lost: xr.DataArray) -> xr.DataArray:
    """Nats lost over those that each model saves against a uniform guess."""
    return lost / (full.full_uniform - full.loss)


def _largest_joins(members: xr.Dataset) -> xr.DataArray:
    """Whether the largest single edge runs from the expected head to a key of an induction head."""
    role = members.role.drop_vars("head")
    writes = role.isel(layer=0, drop=True).rename(head="writer") == PREVIOUS
    reads = role.isel(layer=1, drop=True).rename(head="reader") == INDUCTION
    joined = members.edges.sel(kind="K").where(writes & reads).max(["writer", "reader"])
    largest = np.maximum(
        members.edges.max(["writer", "kind", "reader"]),
        members.routes.sel(route="direct").max("writer"),
    )
    return joined == largest


def _induction_adds_most(members: xr.Dataset) -> xr.DataArray:
    """Whether, of all components, an induction head has the largest direct effect."""
    heads = [f"head 1.{head}" for head in members["head"].values]
    inducing = members.role.isel(layer=1, drop=True) == INDUCTION
    inducing = inducing.rename(head="component").assign_coords(component=heads)
    return members.direct.where(inducing).max("component") == members.direct.max("component")
