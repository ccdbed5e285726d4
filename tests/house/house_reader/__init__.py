"""Reads what the walk found."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    requires=("house_walk",),
    budget_seconds=1,
)
