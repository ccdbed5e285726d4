"""Measured values of the claims on the scale of scores, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_samples import regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import widened

# What the 32 texts that all seeds share have of the variance (docs/checks.md).
OF_TEXTS = {"scale-trains": 0.97, "scale-saturates": 0.52}
# Shares of the Jacobian with the scale at which falls of the null end.
FLOORS = (0.15, 0.18)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    scaled, raw = (record.data.sel(scale=name) for name in ("1/sqrt(d_k)", "1"))
    widest = [part.isel(width=-1) for part in (raw, scaled)]
    losses = [members_where(part).loss.sel(time="trained") for part in widest]
    measured = {
        "scale-growth": mean_estimate(_slopes(raw, "variance")),
        "scale-constant": mean_estimate(_slopes(scaled, "variance")),
        "scale-trains": difference_estimate(*losses),
        **_saturation(raw, scaled),
    }
    return Measured(widened(measured, OF_TEXTS), {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: models shuffled between the scales, and falls that level off."""
    raw, scaled = (record.data.sel(scale=name) for name in ("1", "1/sqrt(d_k)"))
    losses = [members_where(part.isel(width=-1)).loss.sel(time="trained") for part in (raw, scaled)]
    trains = regrouped(*losses) if min(map(len, losses)) else [None]
    worlds = [_levelled(raw, scaled, at) for at in range(1, raw.sizes["width"] - 1)]
    worlds += [world for floor in FLOORS for world in _floored(raw, scaled, floor)]
    levels = [widened(_saturation(world, scaled), OF_TEXTS)["scale-saturates"] for world in worlds]
    return {
        "permuted": {"scale-trains": trains},
        "false world": {"scale-saturates": levels or [None]},
    }


@measures("scale-saturates")
def _saturation(raw: xr.Dataset, scaled: xr.Dataset) -> dict[str, Estimate]:
    """Slope of the log of the Jacobian without the scale, less that with it."""
    slopes = _slopes(raw, "jacobian"), _slopes(scaled, "jacobian")
    return {"scale-saturates": difference_estimate(*slopes)}


def _levelled(raw: xr.Dataset, scaled: xr.Dataset, at: int) -> xr.Dataset:
    """Models without the scale whose mean ratio to those with it stays from a width on."""
    ratio = raw.jacobian.mean("member") / scaled.jacobian.mean("member")
    stays = ratio.isel(width=at) / ratio
    later = raw.width > raw.width[at]
    return raw.assign(jacobian=raw.jacobian * xr.where(later, stays, 1))


def _floored(raw: xr.Dataset, scaled: xr.Dataset, floor: float) -> list[xr.Dataset]:
    """Models without the scale whose mean ratio to those with it nears a floor at the last width.

    What is above the floor falls by the same factor as in the step before; none where it does not
    fall there.
    """
    ratio = raw.jacobian.mean("member") / scaled.jacobian.mean("member")
    above = (ratio.sel(time="initial") - floor).values
    if len(above) < 3 or not above[-3] > above[-2] > 0:
        return []
    ends = (floor + above[-2] ** 2 / above[-3]) / ratio.sel(time="initial", drop=True)
    return [raw.assign(jacobian=raw.jacobian * xr.where(raw.width == raw.width[-1], ends, 1))]


def _slopes(part: xr.Dataset, name: str) -> np.ndarray:
    """Slope of the log of a quantity over log d_k at initialisation, by member."""
    logs = np.log(part[name].sel(time="initial").transpose("width", "member").values)
    return np.asarray(np.polyfit(np.log(part.width.values), logs, 1)[0])
