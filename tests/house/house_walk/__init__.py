"""A random walk: the smallest experiment that loops, for the tests of the house."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    budget_seconds=2,
    evening_seconds=60,
    paper_seconds=7200,
)
