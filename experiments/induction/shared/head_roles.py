"""Roles of the heads of a two-layer model: a score passes a threshold fixed before the runs."""

import xarray as xr

PREFIX_SCORE = 0.4
PREVIOUS_SCORE = 0.4
# A head below this matches no prefixes.
NO_MATCH = 0.2
# Values of ``role``.
NEITHER, PREVIOUS, INDUCTION = range(3)


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


def composition_rise(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """Change of total composition by training, per member, after minus before.

    ``mean`` is the mean z over all pairs and kinds, ``above`` the share of them with z over 3, and
    ``below`` the share with z under -3: composition that is avoided is not composition.
    """
    dims = ["kind", "writer", "reader"]
    after, before = members.composition_z, members.composition_z_at_init
    return {
        "mean": (after - before).mean(dims),
        "above": (after > 3).mean(dims) - (before > 3).mean(dims),
        "below": (after < -3).mean(dims) - (before < -3).mean(dims),
    }
