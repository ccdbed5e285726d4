"""Reads what the walk found."""

from dataclasses import dataclass

import jax
import xarray as xr

from circuitax.lab.lab import Lab


@dataclass(frozen=True)
class Spec:
    factor: float = 2.0


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    walk = lab.input("house_walk")
    end = lab.load_arrays("end", source="house_walk")["position"]
    last = walk.data["position"][-1].values
    return xr.Dataset({"difference": ((), abs(end - last).max() * spec.factor)})
