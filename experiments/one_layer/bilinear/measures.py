"""Measured values of the claims on bilinear MLPs, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only
from experiments.one_layer.bilinear.claims import CLAIMS

ABOVE = 0.75  # correlation from which on two eigenvectors tell a direction
FEWEST = 20  # occurrences of a pair of tokens
KEPT = 4
MOST = 0.03  # nats that a layer more may cost a GELU model, as many as a bilinear one may
NEEDED = 64  # eigenvectors of a direction, of which claims name shares


def measure(record: Record) -> Measured:
    """Means over seeds that stayed finite; claims that name shares of 64 need as many."""
    found = estimates(record.data)
    if record.notes["d_model"] != NEEDED:
        found = {name: one for name, one in found.items() if not name.startswith("bilinear-kept")}
    found = over_seeds_only(found, ["bilinear-trigrams"])  # counted on one text
    unmet = outdone(record.data)
    rest = unmet_rest(CLAIMS, found, "smaller models, or seeds diverged")
    found = {name: one for name, one in found.items() if name not in unmet}
    return Measured(found, unmet, {name: why for name, why in rest.items() if name not in unmet})


@measures("bilinear-*")
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """All estimates that the record allows."""
    found = {
        "bilinear-energy": _mean(energy(data, "energy")),
        "bilinear-cross": _mean(cross(data, "")),
        "bilinear-trigrams": _mean(true_pairs(data, 0)),
        "bilinear-seeds": _mean(data.cosine.values[:, 0].mean(axis=-1)),
    }
    alive = _alive(data, "bilinear-1")
    if alive.any():
        found["bilinear-pairs-close"] = exact(data.closing.values[alive].max(), alive.sum())
    for depth in map(int, data.depth.values):
        found[f"bilinear-gap-{depth}"] = _mean(gap(data, "bilinear", depth))
        found[f"bilinear-two-{depth}"] = _mean(well_told(data, "correlation", depth))
        share = kept_share(data, data.kept_loss.sel(kept=KEPT), depth)
        found[f"bilinear-kept-{depth}"] = _mean(share)
    return {name: one for name, one in found.items() if one is not None}


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other weights, other units, and what belongs to something else."""
    data = record.data
    untrained: dict[str, Draws] = {"bilinear-cross": [_mean(cross(data, "_at_init"))]}
    mismatched: dict[str, Draws] = {
        "bilinear-seeds": [
            _mean(row.mean(axis=-1)) for row in data.cosine.values[:, 1:].swapaxes(0, 1)
        ],
        "bilinear-trigrams": [
            _mean(true_pairs(data, shift)) for shift in range(1, min(data.sizes["other"], 21))
        ],
    }
    random: dict[str, Draws] = {}
    for depth in map(int, data.depth.values):
        untrained[f"bilinear-two-{depth}"] = [_mean(well_told(data, "correlation_at_init", depth))]
        mismatched[f"bilinear-gap-{depth}"] = [_mean(gap(data, "linear", depth))]
        random[f"bilinear-kept-{depth}"] = [
            _mean(kept_share(data, data.random_loss.isel(draw=i), depth))
            for i in range(data.sizes["draw"])
        ]
    permuted = data.energy_permuted.values[_alive(data, "bilinear-1")]
    return {
        "untrained": untrained,
        "mismatched": mismatched,
        "permuted": {"bilinear-energy": [_mean(row) for row in permuted.T]},
        "random": random,
    }


def gap(data: xr.Dataset, kind: str, depth: int) -> np.ndarray:
    """Last held-out loss less that of the GELU model of the same depth, of each seed."""
    last = data.loss.isel(step=-1)
    names = [f"{kind}-{depth}", f"gelu-{depth}"]
    alive = _alive(data, names[0]) & _alive(data, names[1])
    one, other = (last.sel(model=name).values for name in names)
    return np.asarray((one - other)[alive], float)


def outdone(data: xr.Dataset) -> dict[str, str]:
    """Gaps beside GELU models that end worse than those of one layer less, each with the reason."""
    last = data.loss.isel(step=-1).mean("seed")
    found = {}
    for depth in map(int, data.depth.values[1:]):
        more = float(last.sel(model=f"gelu-{depth}") - last.sel(model=f"gelu-{depth - 1}"))
        if more > MOST:
            found[f"bilinear-gap-{depth}"] = (
                f"GELU models of {depth} layers end {more:.2f} nats above those of {depth - 1}: "
                "they were not trained well enough to compare with"
            )
    return found


def well_told(data: xr.Dataset, name: str, depth: int) -> np.ndarray:
    """Share of output directions that two eigenvectors tell, over the MLPs of one depth."""
    rows = data[name].isel(mlp=_of_depth(data, depth)).sel(kept=2).values
    shares = (rows > ABOVE).mean(axis=(0, 2))
    return np.asarray(shares[_alive(data, f"bilinear-{depth}")], float)


def energy(data: xr.Dataset, name: str) -> np.ndarray:
    """Share of the two largest in the squared eigenvalues, in the one-layer models."""
    shares = data[name].values[0, :, :, :2].sum(axis=-1).mean(axis=-1)
    return np.asarray(shares[_alive(data, "bilinear-1")], float)


def kept_share(data: xr.Dataset, loss: xr.DataArray, depth: int) -> np.ndarray:
    """Of the loss that the MLPs of one depth save, the share that is kept, of each seed."""
    whole, removed, kept = (
        np.asarray(x.sel(depth=depth).values, float)
        for x in (data.whole_loss, data.removed_loss, loss)
    )
    return ((removed - kept) / (removed - whole))[_alive(data, f"bilinear-{depth}")]


def cross(data: xr.Dataset, when: str) -> np.ndarray:
    """Loss without the products of token and heads, less the whole one, of each seed."""
    loss = data[f"part_loss{when}"].values
    return np.asarray((loss[:, 2] - loss[:, 0])[_alive(data, "bilinear-1")], float)


def true_pairs(data: xr.Dataset, shift: int) -> np.ndarray:
    """Share of pairs that come true, of each seed; with a shift, of the tokens of other pairs."""
    own = (np.arange(data.sizes["direction"]) + shift) % data.sizes["direction"]
    shares = []
    for seed in np.flatnonzero(_alive(data, "bilinear-1")):
        one = data.isel(seed=int(seed))
        with_it, without = (
            np.take_along_axis(one[name].values, own[:, None], axis=1)[:, 0]
            for name in ("rate_with", "rate_without")
        )
        seen = (one.times.values >= FEWEST) & np.isfinite(without)
        if seen.any():
            more, same = with_it[seen] > without[seen], with_it[seen] == without[seen]
            shares.append((more + 0.5 * same).mean())
    return np.array(shares)


def _alive(data: xr.Dataset, model: str) -> np.ndarray:
    return np.asarray(data.alive.sel(model=model).values, bool)


def _of_depth(data: xr.Dataset, depth: int) -> list[int]:
    return [i for i, name in enumerate(map(str, data.mlp.values)) if name.endswith(f"of {depth}")]


def _mean(samples: np.ndarray) -> Estimate | None:
    values = np.asarray(samples, float)
    return mean_estimate(values) if values.size and np.isfinite(values).all() else None
