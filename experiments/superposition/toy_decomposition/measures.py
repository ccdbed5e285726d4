"""Measured values of the claims on parameter decomposition, from a record."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_of_finite, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from experiments.superposition.toy_decomposition.claims import CLAIMS

NAMES = {"small": "small", "small-id": "small ID", "large": "large", "large-id": "large ID"}
N_DRAWS, N_CHANCE = 40, 1000
PUBLISHED = {"small": [5, 2], "large": [40, 10]}
APD_RATIO = 0.935  # of 40 features in 10 dimensions, as printed


def measure(record: Record) -> Measured:
    """The measured value of every claim about the published sizes."""
    sizes = record.notes["sizes"]
    if any(list(sizes[size][:2]) != wanted for size, wanted in PUBLISHED.items()):
        return Measured({}, {}, unmet_rest(CLAIMS, {}, "this run has other sizes than the papers"))
    data, found = record.data, dict[str, Estimate]()
    there = set(data.target.values)
    for name, target in NAMES.items():
        if target not in there:
            continue
        cell = data.sel(target=target)
        found[f"spd-{name}"] = _mean(cell.cosine)
        found[f"spd-ratio-{name}"] = _mean(cell.norm_ratio)
    for size in PUBLISHED:
        cell = data.sel(target=size)
        found[f"spd-shrinks-less-{size}"] = _mean(abs(cell.norm_ratio - 1))
        found[f"spd-one-to-one-{size}"] = _mean(cell.one_to_one)
        found[f"decomposition-null-{size}"] = _mean(cell.start_cosine)
        found[f"decomposition-whole-null-{size}"] = _mean(cell.start_rank_one)
        found[f"decomposition-whole-{size}"] = _mean(cell.rank_one)
    for name, alive, wanted, _ in _alive(record):
        found[name] = share_estimate(alive == wanted)
    found["decomposition-faithful"] = _worst(data.faithfulness)
    found["decomposition-sufficient"] = _worst(data.masked)
    return Measured(found, {}, unmet_rest(CLAIMS, found, "this run has no identity between"))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: scores before training or of others, and chance."""
    data, sizes = record.data, record.notes["sizes"]
    untrained: dict[str, Draws] = {}
    for name, target in NAMES.items():
        if target in data.target.values:
            cell = data.sel(target=target)
            untrained[f"spd-{name}"] = [_mean(cell.start_cosine)]
            untrained[f"spd-ratio-{name}"] = [_mean(cell.start_norm_ratio)]
    mismatched: dict[str, Draws] = {}
    for size, other in (("small", "large"), ("large", "small")):
        if {size, other} <= set(data.target.values):
            cell = data.sel(target=size)
            untrained[f"decomposition-whole-{size}"] = [_mean(cell.start_rank_one)]
            mismatched[f"decomposition-whole-null-{size}"] = [_mean(cell.start_cosine)]
            mismatched[f"decomposition-null-{other}"] = [_mean(cell.start_cosine)]
    if "large" in data.target.values:
        mismatched |= _in_place_of_large(data)
    random: dict[str, Draws] = {}
    for name, alive, wanted, components in _alive(record):
        chance = float(alive.mean()) / components
        drawn = np.random.default_rng(0).binomial(components, chance, (N_CHANCE, alive.size))
        random[name] = (drawn == wanted).mean(axis=1)
    for size in PUBLISHED.keys() & set(data.target.values):
        start = data.sel(target=size).start_norm_ratio
        untrained[f"spd-shrinks-less-{size}"] = [_mean(abs(start - 1))]
        rng = np.random.default_rng(0)
        features, components = int(sizes[size][0]), int(sizes[size][2])
        random[f"spd-one-to-one-{size}"] = [
            _alone(rng.integers(components, size=(data.sizes["seed"], features)))
            for _ in range(N_DRAWS)
        ]
    return {
        "untrained": untrained,
        "mismatched": mismatched,
        "random": random,
        "false world": {"decomposition-faithful": [1.0], "decomposition-sufficient": [1.0]},
    }


def _in_place_of_large(data: xr.Dataset) -> dict[str, Draws]:
    """Norm ratios of what stands in the place of the trained subcomponents of the large target."""
    start = data.sel(target="large").start_norm_ratio
    others = [data.norm_ratio.sel(target=name) for name in data.target.values if name == "large ID"]
    return {
        "spd-ratio-large": [_mean(ratio) for ratio in (*others, start)],
        "spd-shrinks-less-large": [1 - APD_RATIO, _mean(abs(start - 1))],
    }


def _alive(record: Record) -> Iterator[tuple[str, np.ndarray, int, int]]:
    """Subcomponents alive in each finite seed, by claim; how many are right, and how many there."""
    data = record.data
    for size in PUBLISHED:
        n_features, hidden, components, *_ = record.notes["sizes"][size]
        for name, target, place, wanted in (
            (f"spd-alive-{size}", size, "encoder", n_features),
            (f"spd-alive-identity-{size}", f"{size} ID", "identity", hidden),
        ):
            if target in data.target.values:
                alive = data.alive.sel(target=target, place=place).values
                yield name, alive[np.isfinite(alive)], wanted, components


def _alone(chosen: np.ndarray) -> Estimate:
    """Share of features whose subcomponent no other feature has chosen, mean of seeds."""
    same = (chosen[:, :, None] == chosen[:, None, :]).sum(axis=-1)
    return mean_of_finite((same == 1).mean(axis=1))


def _mean(samples: xr.DataArray) -> Estimate:
    return mean_of_finite(samples.values)


def _worst(errors: xr.DataArray) -> Estimate:
    """The mean over seeds of the target whose mean is largest."""
    means = [mean_of_finite(row) for row in np.asarray(errors.transpose("target", "seed"))]
    return max(means, key=lambda estimate: estimate.value)
