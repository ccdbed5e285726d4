"""One cell of a record of several, and the network of each that counts; no JAX."""

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from circuitax.records.sample import NotRun


def place_of(density: float, densities: ArrayLike, *, within: float = 1e-5) -> int:
    """The place of a density among those of a run, up to a share of it."""
    found = np.flatnonzero(np.isclose(densities, density, rtol=within))
    if not found.size:
        raise NotRun(f"this run has no density {density:g}")
    return int(found[0])


def of_best(values: xr.DataArray, best: xr.DataArray) -> np.ndarray:
    """The values ``[seed, cell, ...]`` of the best seed of each cell, ``[cell, ...]``."""
    seed = np.maximum(best.values, 0)  # of a cell whose networks diverged, the first
    return values.values[seed, np.arange(seed.size)]
