"""Random layers, stacked: width and depth change shapes, and a pass takes as long as asked for."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    budget_seconds=2,
)
