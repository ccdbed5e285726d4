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
# What the weights say of a head, and the strength that it was planted with.
PLANTED = {"eigenvalues": "planted_copying", "qk_trace": "planted_matching"}


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
    """Draws of the nulls: scores shuffled among heads, and weights of other models' heads."""
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

    others = range(1, max(record.data.sizes["member"], 2))
    weights_of = (with_data(record, _same_strength(record.data, other)) for other in others)
    return {
        "permuted": measured_again(measure, (altered() for _ in range(DRAWS))),
        "mismatched": measured_again(measure, weights_of),
    }


def _same_strength(data: xr.Dataset, other: int) -> xr.Dataset:
    """The data with the weights' scores of the model so many on, strength by strength."""
    changed = {}
    for name, strength in PLANTED.items():
        order, scores = data[strength].values.argsort(axis=1), data[name].values
        moved = np.roll(np.take_along_axis(scores, order, axis=1), other, axis=0)
        changed[name] = data[name].copy(data=np.empty_like(scores))
        np.put_along_axis(changed[name].values, order, moved, axis=1)
    return data.assign(changed)


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
