"""Roles of the heads of a two-layer model, read from a record.

A head gets a role when a score passes a threshold that the claims fixed before their runs. A head's
number means nothing from one seed to the next: heads are aligned by what they do before a mean is
taken over seeds.
"""

import numpy as np
import xarray as xr

PREFIX_SCORE = 0.4
PREVIOUS_SCORE = 0.4
# A head below this matches no prefixes.
NO_MATCH = 0.2
FOUND = "seeds that stayed finite and have an induction head (prefix score over 0.4)"
MOST = "95 % interval of a proportion; 8 of 8 give a lower end of 0.68"
# Values of ``role``.
NEITHER, PREVIOUS, INDUCTION = range(3)


def roles(data: "xr.Dataset") -> "xr.Dataset":
    """Per member: the first layer's previous-token head, the second layer's induction head."""
    return data.assign(
        previous_head=data.previous.isel(layer=0).argmax("head"),
        induction_head=data.prefix.isel(layer=1).argmax("head"),
        has_induction=(data.prefix.isel(layer=1).max("head") > PREFIX_SCORE) & data.alive,
    )


def example_member(data: "xr.Dataset") -> int:
    """The seed shown as an example: the one with the largest prefix score."""
    return int(data.prefix.isel(layer=1).max("head").where(data.alive, -1).argmax("member"))


def role_of_each(data: "xr.Dataset") -> "xr.DataArray":
    """The role of every head: `PREVIOUS` in the first layer, `INDUCTION` in the second, or none."""
    role = xr.where((data.layer == 0) & (data.previous > PREVIOUS_SCORE), PREVIOUS, NEITHER)
    role = xr.where((data.layer == 1) & (data.prefix > PREFIX_SCORE), INDUCTION, role)
    return role.transpose(*data.prefix.dims)


def aligned_by(values: "xr.DataArray", score: "xr.DataArray", axis: str) -> "xr.DataArray":
    """Components with the heads of each layer in the order of a score, the largest first.

    Args:
        values: Numbers of components along ``axis``, whose coordinate names heads ``head L.H``; all
            other components keep their places.
        score: One number for each head, with an axis of members that ``values`` has too, and
            axes ``full_layer`` and ``full_head``.
        axis: Name of the axis of components.

    Returns:
        The same numbers; the place of ``head L.H`` holds the head of layer L with the H-th largest
        score of its member.
    """
    (members,) = (str(d) for d in score.dims if d not in ("full_layer", "full_head"))
    names = [str(name) for name in values[axis].values]
    ranked = score.transpose(members, "full_layer", "full_head").values
    order = np.argsort(-ranked, axis=-1, kind="stable")
    places = np.tile(np.arange(len(names)), (len(order), 1))
    for layer, head in np.ndindex(order.shape[1:]):
        heads = [names.index(f"head {layer}.{i}") for i in order[:, layer, head]]
        places[:, names.index(f"head {layer}.{head}")] = heads
    seeds = xr.DataArray(np.arange(len(order)), dims=members)
    found = values.isel({members: seeds, axis: xr.DataArray(places, dims=(members, axis))})
    return found.assign_coords({axis: values[axis]}).transpose(*values.dims)


def composition_rise(members: "xr.Dataset") -> "dict[str, xr.DataArray]":
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
