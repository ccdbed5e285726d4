"""Held-out losses of models of English, and the gain from more text."""

import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import notice
from circuitax.records.sample import Sample, mean_of
from experiments.one_layer.shared import family_readings as family
from experiments.one_layer.shared.family_readings import doubling, last_losses, positions

__all__ = ["below_trigrams", "doubling", "positions", "training"]


def below_trigrams(data: xr.Dataset) -> Sample:
    """Held-out loss of the table of three tokens less that of two layers, nats."""
    losses = last_losses(data, "layers-2")
    return mean_of(float(data.trigram_loss) - losses)


def training(data: xr.Dataset) -> Figure:
    """Held-out loss over training and against the length of training, and at the end, by seed."""
    if "missing" in data.attrs:
        return notice(f"not at hand: {data.attrs['missing']}")
    return family.training(data)
