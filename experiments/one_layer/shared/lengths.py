"""The same members trained for half as long, and half of that: the gain of the last doubling."""

from collections.abc import Callable

import numpy as np

from circuitax.kernel.model import Model
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Metrics, TrainState

# From the steps of a training and those of a chunk: the first state, and the function of a chunk.
Begin = Callable[[int, int], tuple[TrainState, Callable[[TrainState], tuple[TrainState, Metrics]]]]


def require_halvings(optim: OptimSpec, halvings: int) -> None:
    """Refuse settings whose shortest training has no whole steps, or ends in the warm-up.

    Raises:
        ValueError: Naming ``halvings``, its value and what it must leave.
    """
    shortest = optim.steps // 2**halvings
    if optim.steps % 2**halvings or shortest < optim.warmup_steps:
        raise ValueError(
            f"halvings={halvings} must leave whole steps, at least "
            f"optim.warmup_steps={optim.warmup_steps}: optim.steps={optim.steps}"
        )


def lengths(steps: int, halvings: int) -> list[int]:
    """Steps of the longest training and of the shorter ones, each half of the one before."""
    return [steps // 2**k for k in range(halvings + 1)]


def shorter_losses(
    lab: Lab,
    name: str,
    steps: list[int],
    begin: Begin,
    as_models: Callable[[object], Model],
    losses: Callable[[Model], np.ndarray],
    *,
    most: int,
) -> list[np.ndarray]:
    """Last held-out losses of trainings of several lengths: an array of members for each.

    Each training has its whole schedule, so that its end can be compared with the ends of the
    others, which a point inside a training cannot. Members that diverged are NaN.

    Args:
        lab: Of the experiment.
        name: Of the model; loops are named after it and the steps.
        steps: Length of each training.
        begin: Makes the ensemble of one training.
        as_models: Models from trained parameters.
        losses: Held-out loss of every member.
        most: Longest chunk of steps.
    """
    rows = []
    for n in steps:
        chunk = chunk_size(n, most=most)
        state, train = begin(n, chunk)
        trained = measured_training(
            lab, f"{name}-of-{n}", state, train, steps=n, every=chunk, as_models=as_models
        )
        rows.append(np.where(trained.alive, losses(trained.models), np.nan))
    return rows
