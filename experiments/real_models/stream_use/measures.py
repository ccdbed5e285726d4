"""Measured values of the claims on the stream's use, from a record."""

from typing import SupportsFloat

import numpy as np

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from experiments.real_models.shared.model_facts import not_smollm2
from experiments.real_models.stream_use.claims import CLAIMS

# Random directions of 576 dimensions have cosines with a deviation of 0.04.
NEGATIVE = -0.3


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    data, notes = record.data, record.notes
    why = not_smollm2(notes)
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    quarter = data.sizes["component"] // 4
    least = data.least.min("map").values
    found = {
        "stream-embedding": _of_the_model(data.variance.values[:quarter].sum()),
        "stream-neuron-erases": _of_the_model(least.min()),
        "stream-neuron-layers": _of_the_model((least < NEGATIVE).mean()),
        "stream-head-erases": _of_the_model(data.eigenvalues.min()),
    }
    erases = data.eigenvalues.values < NEGATIVE
    if erases.any() and not erases.all():
        present = data.present.values
        more = present[:, erases].mean(axis=1) - present[:, ~erases].mean(axis=1)
        found["stream-head-present"] = mean_estimate(np.asarray(more))
    why = f"no head has an eigenvalue score below {NEGATIVE}"
    return Measured(found, unmet_rest(CLAIMS, found, why))


def _of_the_model(value: SupportsFloat) -> Estimate:
    """A number of the one model: training has made it, and no second model says how it spreads."""
    return exact(value)._replace(method="one model, no interval")
