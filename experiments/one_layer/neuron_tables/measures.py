"""Measured values of the claims on neurons as a memory, from a record."""

import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate, mean_estimates
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only


def measure(record: Record) -> Measured:
    """Means over seeds, all units of all layers alike, before training and after."""
    alive = members_where(record.data)
    measured = _at(alive, "", "") | _at(alive, "_at_init", "-null")
    found = measured | mean_estimates(_rises(alive))
    return Measured(over_seeds_only(found, found), {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: units before training, and before and after exchanged."""
    alive = members_where(record.data)
    if not alive.sizes["member"]:
        return {}
    start = _at(alive, "_at_init", "")
    return {
        "untrained": {name: [start[name]] for name in ("neuron-lift", "neuron-keys")},
        "permuted": exchanged(_rises(alive)),
    }


@measures("neuron-keys-rise", "neuron-values-rise")
def _rises(alive: xr.Dataset) -> dict[str, xr.DataArray]:
    """Differences of each seed, after training minus before."""
    shared = (alive.shared - alive.shared_at_init).isel(layer=0).mean("unit") / alive.chance
    return {
        "neuron-keys-rise": shared,
        "neuron-values-rise": _truer(alive, "") - _truer(alive, "_at_init"),
    }


@measures("neuron-keys", "neuron-lift", "neuron-lift-null")
def _at(alive: xr.Dataset, when: str, end: str) -> dict[str, Estimate]:
    """Estimates at one end of training; keys are compared layer by layer."""
    units = ("layer", "unit")
    lift = alive[f"fired{when}"].mean(units) / alive[f"everywhere{when}"].mean(units)
    found = {
        f"neuron-values{end}": mean_estimate(_truer(alive, when)),
        f"neuron-lift{end}": mean_estimate(lift),
    }
    for layer, name in enumerate(("", *(f"-{i}" for i in range(1, alive.sizes["layer"])))):
        shared = alive[f"shared{when}"].isel(layer=layer).mean("unit") / alive.chance
        found[f"neuron-keys{name}{end}"] = mean_estimate(shared)
    return found


def _truer(alive: xr.Dataset, when: str) -> xr.DataArray:
    """Share of units whose values come next more often where they fire; a tie counts half."""
    fired, everywhere = alive[f"fired{when}"], alive[f"everywhere{when}"]
    return ((fired > everywhere) + 0.5 * (fired == everywhere)).mean(("layer", "unit"))
