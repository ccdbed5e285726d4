"""What a record of the phase diagram says of each claim."""

import numpy as np
import xarray as xr

from circuitax.records.crossing import crossing
from circuitax.records.estimate import exact, selected
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.superposition.phases import phases
from experiments.toy_phase.claims import TABLE

PAIRED, ALONE = "n=2, m=1", "n=3, m=2"


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    p = np.linspace(0.5, 0.65, 4001)
    shared, ignored = p**2 / 3, p / 3 - p**2 / 4
    found = {"T4-triple-point": exact(crossing(p, shared - ignored))}
    # Of the trained networks the record keeps one selection, the best of all seeds in each cell.
    for source, estimate in (("optimum", exact), ("trained", selected)):
        ratio = data[f"{source}_loss"] / data[f"{source}_closed_form"]
        found[f"T4-{source}-below"] = estimate(ratio.max())
        same = _regions(data, source) == _regions_in_theory(data, source)
        found[f"T4-regions-{source}"] = estimate(same.mean())
    missed = [_spot(data, PAIRED, *at)["spot_loss"] - loss for at, loss in TABLE.items()]
    found["T4-table"] = exact(np.abs(missed).max())
    found["T4-blur"] = exact(_spot(data, PAIRED, 1.0, 0.65)["spot_interference"])
    dropped = np.linalg.svd(_spot(data, ALONE, 1.0, 0.7)["spot_W"])[2][-1]
    found["T4-confused"] = exact(abs(dropped.sum()) / np.sqrt(3))
    dimensionality = np.sort(_spot(data, ALONE, 1.0, 0.5)["spot_dimensionality"])
    found["T4-digon-dedicated"] = exact(np.abs(dimensionality - [0.5, 0.5, 1]).max())
    return Measured(found, {})


def _regions(data: xr.Dataset, source: str) -> np.ndarray:
    """What became of the last feature in every cell of one picture."""
    return phases(data[f"{source}_norm"], data[f"{source}_interference"])


def _regions_in_theory(data: xr.Dataset, source: str) -> np.ndarray:
    """The same by the closed forms, at the nearest points of their own, finer grid."""
    axes = ("importance", "density")
    nearest = data[["theory_norm", "theory_interference"]].sel(
        {f"{axis}_theory": data[f"{axis}_{source}"] for axis in axes}, method="nearest"
    )
    return _regions(nearest.transpose("model", *(f"{axis}_{source}" for axis in axes)), "theory")


def _spot(data: xr.Dataset, model: str, importance: float, density: float) -> xr.Dataset:
    """What was found at one of the points that claims name."""
    cell = data.sel(model=model)
    here = np.isclose(cell["spot_importance"], importance) & np.isclose(
        cell["spot_density"], density
    )
    return cell.isel(spot=int(np.flatnonzero(here)[0]))
