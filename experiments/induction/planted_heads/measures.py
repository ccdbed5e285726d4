"""Measured values of the claims on planted heads, from a record."""

import numpy as np
import xarray as xr
from scipy import stats

from circuitax.records.estimate import mean_estimate, mean_estimates
from circuitax.records.measured import Measured
from circuitax.records.null_draws import measured_again, shuffled, with_data
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record

DRAWS = 200


def measure(record: Record) -> Measured:
    """Rank correlations over the heads of each model, as means over models."""
    data = record.data
    erasing = {
        name: _ranks(data, "planted_copying", name, below=0) for name in ("cosine", "raised")
    }
    samples = {
        "planted-copying": _ranks(data, "eigenvalues", "raised"),
        "planted-matching": _ranks(data, "qk_trace", "prefix"),
        "planted-eigenvalues-known": _ranks(data, "planted_copying", "eigenvalues"),
        "planted-trace-known": _ranks(data, "planted_matching", "qk_trace"),
        "planted-prefix-known": _ranks(data, "planted_matching", "prefix"),
        "planted-previous-known": _ranks(data, "planted_previous", "previous"),
        "planted-erasing-seen": erasing["cosine"],
        "planted-erasing-unseen": erasing["raised"] - erasing["cosine"],
    }
    at_its_own = data.at_offset.argmax("offset") == np.arange(data.sizes["asked"])
    offsets = mean_estimate(at_its_own.mean("asked").values, bounds=(0, 1))
    return Measured(mean_estimates(samples) | {"planted-offsets": offsets}, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: one score of each pair shuffled among the heads of each model."""
    names = (
        "eigenvalues",
        "qk_trace",
        *(f"planted_{x}" for x in ("copying", "matching", "previous")),
    )
    rng = np.random.default_rng(0)

    def altered() -> Record:
        data = record.data
        for name in names:
            data = shuffled(data, [name], "head", rng, ["member"])
        return with_data(record, shuffled(data, ["at_offset"], "asked", rng, ["member"]))

    return {"permuted": measured_again(measure, (altered() for _ in range(DRAWS)))}


def _ranks(data: xr.Dataset, first: str, second: str, below: float = np.inf) -> np.ndarray:
    """Spearman's correlation of two scores over a model's heads with the first below a bound."""
    x, y = data[first].values, data[second].values
    kept = x < below
    if kept.all():
        return _correlations(x, y)
    rows = zip(x, y, kept, strict=True)
    return np.concatenate([_correlations(a[None, some], b[None, some]) for a, b, some in rows])


def _correlations(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row, which `stats.spearmanr` takes row by row, with p-values.

    A score that is the same for all heads orders none of them: 0.
    """
    centred = (stats.rankdata(z, axis=1) - (z.shape[1] + 1) / 2 for z in (x, y))
    a, b = (z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12) for z in centred)
    return np.sum(a * b, axis=1)
