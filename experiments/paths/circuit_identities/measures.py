"""Measured values of the claims on identities and nulls: greatest errors, and moments."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.paths.circuit_identities.claims import CLAIMS

SPECTRA = {
    "identity-eigenvalues": "eigenvalues",
    "identity-trace": "trace",
    "identity-norm": "norm",
}


def measure(record: Record) -> Measured:
    """The measured value of every claim; identities are settled in float64 alone."""
    data = record.data
    errors = {f"identity-{n}": data.path_error.sel(check=n).max() for n in data.check.values}
    errors["identity-paths-float32"] = data.path_error_float32.max()
    errors["identity-scores"] = data.score_error.max()
    spectral = data.spectral_error
    errors |= {claim: spectral.sel(check_spectral=n).max() for claim, n in SPECTRA.items()}
    errors["norm-not-cyclic"] = spectral.sel(check_spectral="cycled").min()
    n_heads = record.notes["score_heads"]
    expected = xr.DataArray([(1 + n_heads) ** 2, (2 + n_heads) ** 2], dims="positions")
    errors["identity-score-count"] = abs(data.score_count.drop_vars("positions") - expected).max()
    measured = {name: exact(value, data.sizes["member"]) for name, value in errors.items()}
    measured |= _moments(data, record.notes["random_d_head"])
    if bool(data.float64):
        return Measured(measured, {})
    not_run = {
        claim.id: "needs dtype=float64, which is the experiment's own default"
        for claim in CLAIMS
        if claim.kind == "identity" and claim.id != "identity-paths-float32"
    }
    return Measured(measured, {}, not_run)


def nulls(record: Record) -> Nulls:
    """The spread of scores that lie anywhere between -1 and 1 alike."""
    return {"false world": {"random-copying-spread": [3**-0.5]}}


@measures("random-*")
def _moments(data: xr.Dataset, d_head: int) -> dict[str, Estimate]:
    """Mean and spread of composition and copying scores, in units of the prediction."""
    pairs, root = ["writer", "reader"], np.sqrt(float(data.random_d_model))
    centre = data.random_composition.mean(pairs) * root
    # Rotations of factors with singular values σ_i give a relative variance of r² of
    # 2 (Σσ⁴/(Σσ²)² - 1/d_model)², and products of two Gaussian factors (1 + 2c)/d_head for the
    # first term, c = d_head/d_model.
    expected = (1 + d_head / float(data.random_d_model)) / (np.sqrt(2) * d_head * root)
    spread = data.random_composition.std(pairs, ddof=1) / expected
    return {
        "random-composition": mean_estimate(_farthest(centre)),
        "random-composition-spread": mean_estimate(spread.mean("kind")),
        "random-copying": mean_estimate(data.random_copying.mean("head")),
        "random-copying-spread": mean_estimate(data.random_copying.std("head", ddof=1)),
    }


def _farthest(ratio: xr.DataArray) -> np.ndarray:
    """The kind whose mean over seeds is farthest from 1."""
    kind = abs(ratio.mean("member") - 1).argmax("kind")
    return ratio.isel(kind=kind).values
