"""Transformers of zero, one and two layers on real text: what each layer is worth, in nats."""

from dataclasses import dataclass

import jax
import xarray as xr

from circuitax.lab.lab import Lab
from experiments.one_layer.shared.text_family import FamilySpec, train_family


@dataclass(frozen=True)
class Spec(FamilySpec):
    """As `FamilySpec`; the text is Python source and documentation."""


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every model, keep weights on a log-spaced schedule, measure on one held-out text."""
    return train_family(spec, key, lab)
