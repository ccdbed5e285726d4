"""Measured values of the claims on proofs with three features, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import exact
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.superposition.polytopes import phases


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    n = data.sizes["point"]
    possible = last_levels(data)
    held = possible.sel({"class": optimiser_classes(data)}).values
    return Measured(
        {
            "triple-bound": exact((data.lower.max("level") / data.optimiser_loss).max(), n),
            "triple-candidate": exact(np.isfinite(held).mean(), n),
            "triple-classes": exact((np.isfinite(possible.values).sum(axis=1) == 1).mean(), n),
            "triple-gap": exact((data.lower.max("level") / data.upper).min(), n),
        },
        {},
    )


def last_levels(data: xr.Dataset) -> xr.DataArray:
    """The bound of every class after the last level that was reached; infinite if excluded."""
    reached = data.lower.notnull().sum("level").values
    bounds = data.class_lower.transpose("point", "level", "class")
    rows = bounds.values[np.arange(reached.size), reached - 1]
    return xr.DataArray(rows, {"point": data.point, "class": data["class"]}, ("point", "class"))


def optimiser_classes(data: xr.Dataset) -> xr.DataArray:
    """The class of the optimiser's best solution at every point."""
    W = data.optimiser_W.transpose("point", "hidden", "feature").values
    products = np.einsum("phf,ph->pf", W, W[:, :, 2])
    size = products[:, 2]
    shared = (products[:, :2] ** 2).sum(axis=1) / np.maximum(size, 1e-12)
    return xr.DataArray(phases(np.sqrt(size), shared).astype(str), dims="point")
