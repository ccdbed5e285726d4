"""Models that others trained: printed numbers, stated paths, and mistakes in the write-ups."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    budget_seconds=10,  # without weights; about 4 minutes with all of them
    paper_seconds=10,
)
