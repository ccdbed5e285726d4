"""The phase diagram of superposition: closed forms, exact optimum and trained networks."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=35,
    evening_seconds=160,  # 360 were measured beside other programs
    paper_seconds=6_000,  # by its work against quick scale; not run
)
