"""Measured values of the claims on attacks, from a record."""

import numpy as np
from scipy.stats import rankdata

from circuitax.records.estimate import exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.superposition.toy_adversarial.claims import CLAIMS

DEFENCE = 0.8  # strength of the attacks in training that the claims are about


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    swept = members_where(data, np.isfinite(data.loss).all("density"))
    attack = swept.analytic.transpose("density", "seed").values
    features = swept.features_per_dimension.transpose("density", "seed").values
    dense, sparse = int(np.argmax(swept.density.values)), int(np.argmin(swept.density.values))
    ranks = [
        np.corrcoef(rankdata(a), rankdata(f))[0, 1]
        for a, f in zip(attack.T, features.T, strict=True)
    ]
    gradient, masked = swept.gradient.values, swept.masked.values
    guarded = members_where(data, np.isfinite(data.defended_loss).all("defence"))
    left = guarded.defended_features_per_dimension.transpose("defence", "seed")
    weakest, strongest = (int(pick(left.defence.values)) for pick in (np.argmin, np.argmax))
    none, full = left.isel(defence=weakest), left.isel(defence=strongest)
    kept = guarded.defended_kept_per_dimension.isel(defence=strongest)
    bounds = ("over_bound", "defended_over_bound", "optimum_over_bound")
    ends = float(left.defence[weakest]), float(left.defence[strongest])
    other = f"defence goes from {ends[0]:g} to {ends[1]:g}, the claims are about 0 and {DEFENCE:g}"
    trained = [claim.id for claim in CLAIMS if claim.id.startswith("adversarial-training")]
    return Measured(
        {
            "adversarial-rise": mean_estimate(attack[sparse] / attack[dense]),
            "adversarial-tracks": mean_estimate(ranks),
            "adversarial-gradient-fails": mean_estimate(gradient[sparse] / attack[sparse]),
            "adversarial-training": mean_estimate(full.values / none.values),
            "adversarial-training-removes": mean_estimate(full.values),
            "adversarial-training-kept": mean_estimate(kept.values),
            "adversarial-dense": mean_estimate(attack[dense]),
            "adversarial-masked": mean_estimate(masked[sparse] - masked[dense]),
            "adversarial-bound": exact(max(float(data[name].max()) for name in bounds)),
        },
        {},
        {} if np.allclose(ends, (0, DEFENCE)) else dict.fromkeys(trained, other),
    )
