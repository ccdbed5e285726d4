"""Measured values of the claims on neurons as a memory, from a record."""

import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate, mean_estimates
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only

# In worlds of the null, this share of the units of a seed has its gain and no other unit has any.
FEW = (0.05, 0.25)


def measure(record: Record) -> Measured:
    """Means over seeds, before training and after."""
    alive = members_where(record.data)
    measured = _at(alive, "", "") | _at(alive, "_at_init", "-null")
    found = measured | mean_estimates(_lifts(alive) | _rises(alive))
    return Measured(over_seeds_only(found, found), {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: units before training, gains of a few, and both ends exchanged."""
    alive = members_where(record.data)
    if not alive.sizes["member"]:
        return {}
    start = _at(alive, "_at_init", "")
    return {
        "untrained": {"neuron-keys": [start["neuron-keys"]]},
        "false world": {
            "neuron-lift": [
                mean_estimate(median_gain(alive.fired_at_init, alive.everywhere_at_init)),
                *(mean_estimate(median_gain(of_few(alive, n), alive.everywhere)) for n in FEW),
            ]
        },
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


@measures("neuron-lift", "neuron-lift-null")
def _lifts(alive: xr.Dataset) -> dict[str, xr.DataArray]:
    """Gain of the median unit, and the ratio of the mean shares of all units before training."""
    units = ("layer", "unit")
    return {
        "neuron-lift": median_gain(alive.fired, alive.everywhere),
        "neuron-lift-null": alive.fired_at_init.mean(units) / alive.everywhere_at_init.mean(units),
    }


def median_gain(fired: xr.DataArray, everywhere: xr.DataArray) -> xr.DataArray:
    """Median over the units of a layer of fired over everywhere, of the layer with the least.

    A mean could be carried by a few units; one whose values never come counts as no gain.
    """
    gain = (fired / everywhere).where(everywhere > 0, 1)
    return gain.median("unit").min("layer")


def of_few(alive: xr.Dataset, share: float) -> xr.DataArray:
    """Shares where units fire, if of a seed's units only those with the largest gains had any."""
    gain = alive.fired - alive.everywhere
    enough = gain.quantile(1 - share, ("layer", "unit"))
    return alive.fired.where(gain >= enough, alive.everywhere)


@measures("neuron-keys")
def _at(alive: xr.Dataset, when: str, end: str) -> dict[str, Estimate]:
    """Estimates at one end of training; keys are compared layer by layer."""
    found = {f"neuron-values{end}": mean_estimate(_truer(alive, when))}
    for layer, name in enumerate(("", *(f"-{i}" for i in range(1, alive.sizes["layer"])))):
        shared = alive[f"shared{when}"].isel(layer=layer).mean("unit") / alive.chance
        found[f"neuron-keys{name}{end}"] = mean_estimate(shared)
    return found


def _truer(alive: xr.Dataset, when: str) -> xr.DataArray:
    """Share of units whose values come next more often where they fire; a tie counts half."""
    fired, everywhere = alive[f"fired{when}"], alive[f"everywhere{when}"]
    return ((fired > everywhere) + 0.5 * (fired == everywhere)).mean(("layer", "unit"))
