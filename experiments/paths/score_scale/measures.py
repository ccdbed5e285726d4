"""Measured values of the claims on the scale of scores, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate, ratio_estimate
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.null_samples import regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import widened

# What the 32 texts that all seeds share have of the variance (docs/checks.md).
OF_TEXTS = {"scale-trains": 0.97, "scale-saturates": 0.52}


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    scaled, raw = (record.data.sel(scale=name) for name in ("1/sqrt(d_k)", "1"))
    widest = [part.isel(width=-1) for part in (raw, scaled)]
    without, with_scale = (part.jacobian.sel(time="initial") for part in widest)
    losses = [members_where(part).loss.sel(time="trained") for part in widest]
    measured = {
        "scale-growth": _growth(raw),
        "scale-constant": _growth(scaled),
        "scale-saturates": ratio_estimate(without, with_scale),
        "scale-trains": difference_estimate(*losses),
    }
    return Measured(widened(measured, OF_TEXTS), {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: models shuffled between those with and without the scale."""
    groups = [record.data.sel(scale=name).isel(width=-1) for name in ("1", "1/sqrt(d_k)")]
    without, with_scale = (part.jacobian.sel(time="initial").values for part in groups)
    losses = [members_where(part).loss.sel(time="trained").values for part in groups]
    saturates = regrouped(without, with_scale, ratio_estimate)
    trains = regrouped(*losses) if min(map(len, losses)) else [None]
    return {"permuted": {"scale-saturates": saturates, "scale-trains": trains}}


def _growth(part: xr.Dataset) -> Estimate:
    """Slope of log variance over log d_k at initialisation, mean over members."""
    log_variance = np.log(part.variance.sel(time="initial").transpose("width", "member").values)
    return mean_estimate(np.polyfit(np.log(part.width.values), log_variance, 1)[0])
