"""The number of paths multiplies with depth, but the shortest paths explain most of the loss."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    budget_seconds=60,
    evening_seconds=270,
    paper_seconds=22_000,  # by its work against quick scale; not run
)
