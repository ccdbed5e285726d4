"""Reach of a proof of the phase diagram with three features in two dimensions."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=50,
    budget_seconds=40,
    evening_seconds=1_800,  # 4,000 were measured beside other programs
    paper_seconds=19_000,  # at most, by its boxes against quick scale; not run
)
