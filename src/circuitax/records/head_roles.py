"""Which head of a two-layer model has which role, read from a record.

A head gets a role when a score passes a threshold that the claims fixed before their runs.
"""

import xarray as xr

PREFIX_SCORE = 0.4
PREVIOUS_SCORE = 0.4
FOUND = "seeds that stayed finite and have an induction head (prefix score over 0.4)"
MOST = "95 % interval of a proportion; 8 of 8 give a lower end of 0.68"
# Values of ``role``.
NEITHER, PREVIOUS, INDUCTION = range(3)


def roles(data: xr.Dataset) -> xr.Dataset:
    """Per member: the first layer's previous-token head, the second layer's induction head."""
    return data.assign(
        previous_head=data.previous.isel(layer=0).argmax("head"),
        induction_head=data.prefix.isel(layer=1).argmax("head"),
        has_induction=(data.prefix.isel(layer=1).max("head") > PREFIX_SCORE) & data.alive,
    )


def role_of_each(data: xr.Dataset) -> xr.DataArray:
    """The role of every head: `PREVIOUS` in the first layer, `INDUCTION` in the second, or none."""
    role = xr.where((data.layer == 0) & (data.previous > PREVIOUS_SCORE), PREVIOUS, NEITHER)
    role = xr.where((data.layer == 1) & (data.prefix > PREFIX_SCORE), INDUCTION, role)
    return role.transpose(*data.prefix.dims)


def composition_rise(members: xr.Dataset) -> dict[str, xr.DataArray]:
    """What training does to composition overall, per member, after minus before.

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
