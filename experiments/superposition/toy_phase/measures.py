"""Measured values of the claims on the phase diagram, from a record."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, exact
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import best_estimate, resampled_estimate
from circuitax.superposition.polytopes import phases
from experiments.superposition.shared.crossing import crossing
from experiments.superposition.toy_phase.claims import TABLE

N_DRAWS = 20
TEN = 10  # networks of a cell, over which the paper averages
PAIRED, ALONE = "n=2, m=1", "n=3, m=2"


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    p = np.linspace(0.5, 0.65, 4001)
    shared, ignored = p**2 / 3, p / 3 - p**2 / 4
    found = {"T4-triple-point": exact(crossing(p, shared - ignored))}
    found["T4-optimum-below"] = exact((data.optimum_loss / data.optimum_closed_form).max())
    found["T4-regions-optimum"] = _optimal(data, _regions_in_theory(data, "optimum"))
    theory = _regions_in_theory(data, "trained")
    found |= _trained(data, theory) | {"T4-regions-trained": _averaged(data, theory)}
    missed = [_spot(data, PAIRED, *at)["spot_loss"] - loss for at, loss in TABLE.items()]
    found["T4-table"] = exact(np.abs(missed).max())
    found["T4-blur"] = exact(_spot(data, PAIRED, 1.0, 0.65)["spot_interference"])
    dropped = np.linalg.svd(_spot(data, ALONE, 1.0, 0.7)["spot_W"])[2][-1]
    found["T4-confused"] = exact(abs(dropped.sum()) / np.sqrt(3))
    dimensionality = np.sort(_spot(data, ALONE, 1.0, 0.5)["spot_dimensionality"])
    found["T4-digon-dedicated"] = exact(np.abs(dimensionality - [0.5, 0.5, 1]).max())
    return Measured(found, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls of the diagrams: the closed forms' cells, shuffled or shifted by one."""
    data = record.data
    theory = {name: _regions_in_theory(data, name) for name in ("optimum", "trained")}
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    tens = _regions_of_tens(data, np.arange(data.sizes["seed"]))
    here = {"importance_theory": 1.0, "density_theory": 0.65}
    in_theory = float(data.theory_interference.sel(model=PAIRED).sel(here, method="nearest"))
    loss = data.seeds_loss.transpose("seed", ...).values
    ratio = (loss / data.trained_closed_form.values).reshape(len(loss), -1)
    cells, one = np.arange(ratio.shape[1]), np.random.default_rng(0)
    some = one.integers(len(loss), size=(N_DRAWS, ratio.shape[1]))
    spots = [float(_spot(data, PAIRED, *at)["spot_loss"]) for at in TABLE]
    turned = [np.abs(np.array(spots) - np.roll(list(TABLE.values()), k)).max() for k in (1, 2, 3)]
    return {
        "false world": {"T4-blur": [in_theory], "T4-digon-dedicated": [1 / 3]},
        "permuted": {
            "T4-trained-below": ratio[some, cells].max(axis=1),
            "T4-table": turned,
            "T4-regions-optimum": [_optimal(data, _mixed(theory["optimum"], rng)) for rng in rngs],
            "T4-regions-trained": [
                float((tens == _mixed(theory["trained"], rng)).mean()) for rng in rngs
            ],
            "regions-best": [draw["regions-best"] for draw in _shifted(data)],
        },
    }


def _mixed(regions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A diagram ``[model, importance, density]`` with its cells shuffled within each model."""
    rows = regions.reshape(len(regions), -1)
    return rng.permuted(rows, axis=1).reshape(regions.shape)


@measures("T4-regions-optimum")
def _optimal(data: xr.Dataset, theory: np.ndarray) -> Estimate:
    """Share of cells in which the exact optimum is in the same region."""
    return exact((_regions(data, "optimum") == theory).mean())


def _shifted(data: xr.Dataset) -> Iterator[dict[str, Estimate]]:
    """Trained diagrams against the closed forms' next cell, to each side of both axes."""
    sides = slice(1, None), slice(None, -1)
    for axis in ("importance_trained", "density_trained"):
        for here, there in (sides, sides[::-1]):
            theory = _regions_in_theory(data.isel({axis: there}), "trained")
            yield _trained(data.isel({axis: here}), theory)


@measures("T4-regions-trained")
def _averaged(data: xr.Dataset, theory: np.ndarray) -> Estimate:
    """Share of cells whose region is that of ten networks without the worst, mean of all tens."""
    return resampled_estimate(
        lambda seeds: float((_regions_of_tens(data, seeds) == theory).mean()), data.sizes["seed"]
    )


def _regions_of_tens(data: xr.Dataset, seeds: np.ndarray) -> np.ndarray:
    """Phase of the last feature by the mean norm and interference of each ten, ``[ten, *cells]``.

    The network with the highest loss is left out of a ten, in every cell by itself.
    """
    loss, norm, interference = (
        data[f"seeds_{name}"].transpose("seed", ...).values
        for name in ("loss", "norm", "interference")
    )
    means = []
    for ten in np.array_split(seeds, max(1, len(seeds) // TEN)):
        kept = np.argsort(loss[ten], axis=0)[: max(1, len(ten) - 1)]
        both = norm[ten], interference[ten]
        means.append([np.take_along_axis(of, kept, axis=0).mean(axis=0) for of in both])
    return phases(*np.stack(means, axis=1))


@measures("regions-best", "T4-trained-below")
def _trained(data: xr.Dataset, theory: np.ndarray) -> dict[str, Estimate]:
    """The best of all seeds in each cell, and how it varies with the seeds tried."""
    seeds = data[["seeds_loss", "seeds_norm", "seeds_interference"]].transpose("seed", ...)
    loss = seeds.seeds_loss.values
    same = _regions(seeds, "seeds") == theory
    ratio = loss / data.trained_closed_form.values
    return {
        "T4-trained-below": best_estimate(loss, ratio, np.max),
        "regions-best": best_estimate(loss, same),
    }


def _regions(data: xr.Dataset, source: str) -> np.ndarray:
    """Phase of the last feature in every cell of one picture."""
    return phases(data[f"{source}_norm"], data[f"{source}_interference"])


def _regions_in_theory(data: xr.Dataset, source: str) -> np.ndarray:
    """The same by the closed forms, at the nearest points of their own, finer grid."""
    axes = ("importance", "density")
    nearest = data[["theory_norm", "theory_interference"]].sel(
        {f"{axis}_theory": data[f"{axis}_{source}"] for axis in axes}, method="nearest"
    )
    return _regions(nearest.transpose("model", *(f"{axis}_{source}" for axis in axes)), "theory")


def _spot(data: xr.Dataset, model: str, importance: float, density: float) -> xr.Dataset:
    """Results at one of the points named by claims."""
    cell = data.sel(model=model)
    here = np.isclose(cell["spot_importance"], importance) & np.isclose(
        cell["spot_density"], density
    )
    return cell.isel(spot=int(np.flatnonzero(here)[0]))
