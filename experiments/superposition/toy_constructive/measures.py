"""Measured values of the claims on dependent features, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from experiments.superposition.toy_constructive.claims import CLAIMS, DEPENDENT

DECAYS = (0.0, 0.1, 0.3)


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if set(DECAYS) <= set(data.decay.values.tolist()) and bool(data.alive.all()):
        found = _losses(data) | _arrangements(data)
    reason = "this run has other decays, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def feature_cosines(data: xr.Dataset) -> np.ndarray:
    """Cosine between every two features, ``[seed, kind, decay, feature, feature]``."""
    W = data.W.transpose("seed", "kind", "decay", "hidden", "feature").values.astype(float)
    unit = W / np.maximum(np.linalg.norm(W, axis=-2, keepdims=True), 1e-12)
    return np.swapaxes(unit, -1, -2) @ unit


def circle(data: xr.Dataset) -> np.ndarray:
    """Fit of cosines of circular features to their places, ``[seed, decay]``."""
    found = feature_cosines(data)[:, list(data.kind.values).index("circular")]
    n = data.sizes["feature"]
    turn = 2 * np.pi * np.arange(n) / n
    pair = np.triu_indices(n, 1)
    places = np.cos(turn[:, None] - turn[None, :])[pair]
    rows = found[..., pair[0], pair[1]]
    return np.apply_along_axis(lambda row: np.corrcoef(row, places)[0, 1], -1, rows)


def clusters(data: xr.Dataset) -> np.ndarray:
    """Mean cosine inside clusters less that between them, ``[seed, decay]``."""
    kind = list(data.kind.values).index("clustered")
    found, n = feature_cosines(data)[:, kind], data.sizes["feature"]
    other = ~np.eye(n, dtype=bool)
    inside = data.correlation.values[kind] > 0
    return found[..., inside & other].mean(axis=-1) - found[..., ~inside].mean(axis=-1)


def ratio(data: xr.Dataset) -> xr.DataArray:
    """Loss over that of independent features of the same seed and decay."""
    return data.loss / data.loss.sel(kind="independent")


def _losses(data: xr.Dataset) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    log = xr.apply_ufunc(np.log, ratio(data))
    exchanged = data.loss / data.permuted_loss
    for kind in DEPENDENT:
        one = ratio(data).sel(kind=kind)
        found[f"constructive-loss-{kind}"] = mean_estimate(one.sel(decay=0.0))
        change = log.sel(kind=kind, decay=0.3) - log.sel(kind=kind, decay=0.0)
        found[f"constructive-decay-{kind}"] = mean_estimate(change)
        found[f"constructive-arranged-{kind}"] = mean_estimate(exchanged.sel(kind=kind, decay=0.0))
    control = abs(1 / exchanged.sel(kind="independent") - 1).mean("decay")
    against = (data.loss.sel(decay=0.0) / data.linear_loss).transpose("seed", ...).values
    linear = resampled_estimate(
        lambda seeds: float(against[seeds].mean(axis=0).max()), len(against)
    )
    return found | {
        "constructive-control": mean_estimate(control),
        "constructive-linear": linear,
    }


def _arrangements(data: xr.Dataset) -> dict[str, Estimate]:
    decays = data.decay.values.tolist()
    none, middle, high = (decays.index(decay) for decay in DECAYS)
    found = {}
    for name, values in (("circle", circle(data)), ("clusters", clusters(data))):
        found[f"constructive-{name}"] = mean_estimate(values[:, middle])
        change = values[:, high] - values[:, none]
        found[f"constructive-{name}-decay"] = mean_estimate(change)
    return found
