"""The gain from more text: final losses of trainings of several lengths, in the same seeds."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.learning_law import LearningLaw, fitted_law


def length_losses(data: xr.Dataset, model: str) -> np.ndarray:
    """Last losses ``[length, seed]`` of the seeds that stayed finite at every length.

    Args:
        data: ``length_loss`` by model, length (tokens, the longest first) and seed.
        model: Which of the models.
    """
    losses = data.length_loss.sel(model=model).transpose("length", "seed").values
    return np.asarray(losses[:, np.isfinite(losses).all(axis=0)])


def learning_laws(data: xr.Dataset, model: str) -> list[LearningLaw]:
    """The law of each seed; none where there are fewer than three lengths."""
    tokens = data.length.values
    if len(tokens) < 3:
        return []
    return [fitted_law(tokens, losses) for losses in length_losses(data, model).T]


def more_text(data: xr.Dataset, models: list[str]) -> dict[str, Estimate]:
    """The gain of the last doubling, and the prediction of each seed's law, by model.

    ``last-doubling-M`` is what training for twice the tokens gained, each length with a schedule of
    its own, in the same seeds; ``limit-M``, ``exponent-M`` and ``next-doubling-M`` are those of the
    laws.
    """
    found = {}
    for name in models:
        losses = length_losses(data, name)
        if len(losses) > 1 and losses.size:
            found[f"last-doubling-{name}"] = mean_estimate(losses[1] - losses[0])
        if laws := learning_laws(data, name):
            found[f"limit-{name}"] = mean_estimate(np.array([law.limit for law in laws]))
            found[f"exponent-{name}"] = mean_estimate(np.array([law.exponent for law in laws]))
            doubling = np.array([law.next_doubling for law in laws])
            found[f"next-doubling-{name}"] = mean_estimate(doubling)
    return found
