"""What each layer is worth on Python source, and its figures."""

import xarray as xr

from circuitax.records.estimate import Estimate, difference_estimate, mean_estimate
from experiments.one_layer.shared.family_readings import last_losses, positions, training

__all__ = ["above_bigrams", "below_bigrams", "positions", "second_layer", "training"]


def below_bigrams(data: xr.Dataset, model: str = "layers-1") -> Estimate:
    """Held-out loss of the bigram table less that of a model, nats."""
    return mean_estimate(float(data.bigram_loss) - last_losses(data, model))


def above_bigrams(data: xr.Dataset) -> Estimate:
    """Held-out loss without layers less that of the bigram table, nats."""
    return mean_estimate(last_losses(data, "layers-0") - float(data.bigram_loss))


def second_layer(data: xr.Dataset) -> Estimate:
    """Mean held-out loss of one layer less that of two, nats."""
    return difference_estimate(last_losses(data, "layers-1"), last_losses(data, "layers-2"))
