"""Roles of the heads of a two-layer model: a score passes a threshold fixed before the runs."""

import numpy as np
import xarray as xr

from circuitax.records.record import members_where
from circuitax.records.sample import Absent

PREFIX_SCORE = 0.4
PREVIOUS_SCORE = 0.4
# A head below this matches no prefixes.
NO_MATCH = 0.2


def roles(data: xr.Dataset) -> xr.Dataset:
    """Per member: the first layer's previous-token head, the second layer's induction head."""
    return data.assign(
        previous_head=data.previous.isel(layer=0).argmax("head"),
        induction_head=data.prefix.isel(layer=1).argmax("head"),
        has_induction=(data.prefix.isel(layer=1).max("head") > PREFIX_SCORE) & data.alive,
    )


def example_member(data: xr.Dataset) -> int:
    """The seed shown as an example: the one with the largest prefix score."""
    return int(data.prefix.isel(layer=1).max("head").where(data.alive, -1).argmax("member"))


def formed(data: xr.Dataset) -> xr.Dataset:
    """The members with an induction head, of which there must be two."""
    members = members_where(data, "has_induction")
    if (n := members.sizes["member"]) < 2:
        raise Absent(f"only {n} of {data.sizes['member']} seeds have an induction head")
    return members


def of_induction(members: xr.Dataset, name: str) -> xr.DataArray:
    """What an array says of each member's induction head."""
    return members[name].isel(layer=1, head=members.induction_head)


def before_training(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The same heads with their weights at the start."""
    names = ("composition_z", "copying", "matching")
    return data.assign({name: data[f"{name}_at_init"] for name in names})


WORLDS = {"before training": before_training}
