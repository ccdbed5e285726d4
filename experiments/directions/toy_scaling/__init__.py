"""Scaling with width: strong superposition, weak superposition, and the decay between them."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=50,
    budget_seconds=120,
    evening_seconds=1_500,  # 1,850 were measured beside other programs
    paper_seconds=400_000,  # by its work against quick scale; not run
)
