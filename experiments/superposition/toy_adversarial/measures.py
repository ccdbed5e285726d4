"""Measured values of the claims on attacks, from a record."""

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from circuitax.records.estimate import Estimate, exact, geometric_estimate, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import shuffled
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.superposition.toy_adversarial.claims import CLAIMS

DEFENCE = 0.8  # strength of the attacks in training that the claims are about
# Share of inputs without a gradient from which gradients count as masked.
MASKED = 0.5
N_DRAWS = 40


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    bounds = ("over_bound", "defended_over_bound", "optimum_over_bound")
    found = _swept(data) | _defended(data)
    found["adversarial-bound"] = exact(max(float(data[name].max()) for name in bounds))
    weakest, strongest = float(data.defence.min()), float(data.defence.max())
    other = (
        f"defence goes from {weakest:g} to {strongest:g}, the claims are about 0 and {DEFENCE:g}"
    )
    trained = [claim.id for claim in CLAIMS if claim.id.startswith("adversarial-training")]
    meant = np.allclose((weakest, strongest), (0, DEFENCE))
    return Measured(found, _unmasked(data), {} if meant else dict.fromkeys(trained, other))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: shuffled densities, strengths and seeds, and a false world."""
    data = record.data
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    swept = [str(name) for name in data.data_vars if data[name].dims == ("density", "seed")]
    trained = [str(name) for name in data.data_vars if data[name].dims == ("defence", "seed")]
    densities = [_swept(shuffled(data, swept, "density", rng, ["seed"])) for rng in rngs]
    strengths = [_defended(shuffled(data, trained, "defence", rng, ["seed"])) for rng in rngs]
    kept = members_where(data, np.isfinite(data.loss).all("density"))
    features = ["kept_per_dimension"]
    seeds = [_tracks(shuffled(kept, features, "seed", rng, ["density"])) for rng in rngs]
    without = data.defended_kept_per_dimension.isel(defence=int(np.argmin(data.defence.values)))
    return {
        "permuted": {
            name: [draw[name] for draw in draws]
            for draws in (densities, strengths)
            for name in draws[0]
        }
        | {"adversarial-tracks": seeds},
        "false world": {"adversarial-training-removes": [_mean(without)]},
    }


def _unmasked(data: xr.Dataset) -> dict[str, str]:
    """Why no attack can fail for want of a gradient, if most of the sparsest inputs have one."""
    sparse = data.isel(density=int(np.argmin(data.density.values)))
    masked = float(sparse.masked.mean())
    if masked >= MASKED:
        return {}
    at = f"at the sparsest density, {sparse.density:g}"
    why = f"gradients are not masked: {masked:.0%} of inputs have none {at}, and half would have to"
    return {"adversarial-gradient-fails": why}


@measures(
    "adversarial-dense", "adversarial-gradient-fails", "adversarial-masked", "adversarial-rise"
)
def _swept(data: xr.Dataset) -> dict[str, Estimate]:
    """Vulnerability from dense to sparse features."""
    swept = members_where(data, np.isfinite(data.loss).all("density"))
    dense = swept.isel(density=int(np.argmax(swept.density.values)))
    sparse = swept.isel(density=int(np.argmin(swept.density.values)))
    return {
        "adversarial-rise": geometric_estimate(np.log((sparse.analytic / dense.analytic).values)),
        "adversarial-tracks": _tracks(swept),
        "adversarial-gradient-fails": _mean(sparse.gradient / sparse.analytic),
        "adversarial-dense": _mean(dense.analytic),
        "adversarial-masked": _mean(sparse.masked - dense.masked),
    }


@measures("adversarial-tracks")
def _tracks(data: xr.Dataset) -> Estimate:
    """Rank correlation of vulnerability with kept features over seeds, mean of densities.

    A rank correlation is a mean over seeds, of the product of the standardised ranks of each. A
    density whose seeds all keep as many counts as one without a correlation.
    """
    standard = []
    for name in ("analytic", "kept_per_dimension"):
        ranks = rankdata(data[name].transpose("density", "seed").values, axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        spread = ranks.std(axis=1, keepdims=True)
        standard.append(ranks / np.where(spread > 0, spread, 1))
    return mean_estimate(np.prod(standard, axis=0).mean(axis=0))


@measures("adversarial-training-*", "adversarial-training")
def _defended(data: xr.Dataset) -> dict[str, Estimate]:
    """Features after training against the strongest attacks, and over those against none."""
    guarded = members_where(data, np.isfinite(data.defended_loss).all("defence"))
    none = guarded.isel(defence=int(np.argmin(guarded.defence.values)))
    full = guarded.isel(defence=int(np.argmax(guarded.defence.values)))
    kept, squares = "defended_kept_per_dimension", "defended_features_per_dimension"
    return {
        "adversarial-training": _mean(full[kept] / none[kept]),
        "adversarial-training-removes": _mean(full[kept]),
        "adversarial-training-shrinks": _mean(full[squares] / none[squares]),
    }


def _mean(values: xr.DataArray) -> Estimate:
    return mean_estimate(values.values)
