"""Computation in superposition: absolute values of more features than there are neurons for."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=140,
    budget_seconds=80,
    evening_seconds=2700,  # by its work against 16 seeds
    paper_seconds=40_000,  # by its work against quick scale; not run
)
