"""Measured values of the claims on the privileged basis, from a record."""

from collections.abc import Iterable, Iterator

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.resampled import best_estimate
from experiments.superposition.toy_privileged.claims import CLAIMS, MONOSEMANTIC, REPRESENTED

# A restart has found the best solution when its loss is at most 1 % above it.
TOLERANCE = 0.01


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle."""
    data = record.data
    found: dict[str, Estimate] = {}
    for p, cell in _named(data, MONOSEMANTIC):
        found[f"privileged-mono-p{p:g}"] = _of_best(cell, "monosemantic")
    for p, cell in _named(data, REPRESENTED):
        found[f"privileged-features-p{p:g}"] = _of_best(cell, "represented")
    for _, cell in _named(data, (0.35,)):
        found["privileged-code"] = _of_best(cell, "polysemantic")
    for _, cell in _named(data, (0.03,)):
        found["privileged-pairs"] = _of_best(cell, "paired")
    sparse = data.isel(density=data.density.values <= 0.15)
    if sparse.sizes["density"]:
        # The cells of a restart share its data: they are averaged; the interval counts restarts.
        share = reached(sparse).mean("density")
        found["privileged-best-is-rare"] = mean_estimate(share.values)
    return Measured(found, {}, unmet_rest(CLAIMS, found, "this run has other densities"))


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether a restart has found the best solution of its cell; not if it diverged."""
    return data.loss <= (1 + TOLERANCE) * data.loss.min("restart")


def _of_best(cell: xr.Dataset, count: str) -> Estimate:
    """A number of the restart with the lowest loss, and how it varies with the restarts tried."""
    return best_estimate(cell.loss.values, cell[count].values)


def _named(data: xr.Dataset, densities: Iterable[float]) -> Iterator[tuple[float, xr.Dataset]]:
    """The cells of the given densities that this run has."""
    for p in densities:
        for i in np.flatnonzero(np.isclose(data.density.values, p)):
            yield float(p), data.isel(density=int(i))
