"""Selecting members of a labelled array, such as those whose training stayed finite."""

from typing import TypeVar

import numpy as np
import xarray as xr

Labelled = TypeVar("Labelled", xr.Dataset, xr.DataArray)


def members_where(
    data: Labelled, mask: str | xr.DataArray = "alive", *, otherwise: str | None = None
) -> Labelled:
    """The part of the data whose members satisfy a mask, in order.

    ``members_where(data.sel(arm="2 layers"))`` are the members of one arm that stayed finite. The
    mask decides the axis: ``member``, or another one such as ``run`` or ``full_member``.

    Args:
        data: Labelled arrays.
        mask: Name of a variable of truth values over one axis, or the variable itself.
        otherwise: A second mask, taken where no member satisfies the first.

    Raises:
        ValueError: If the mask has not exactly one axis: select an arm or a depth first.
    """
    chosen = data[mask] if isinstance(mask, str) else mask
    if otherwise is not None and not bool(chosen.any()):
        chosen = data[otherwise]
    if len(chosen.dims) != 1:
        name = mask if isinstance(mask, str) else mask.name
        raise ValueError(f"mask {name!r} has axes {chosen.dims}, it must have one, the members'")
    (axis,) = chosen.dims
    return data.isel({axis: np.flatnonzero(chosen.values)})
