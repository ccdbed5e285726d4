"""The smallest m that keeps all pairs, against log N and ε, with its constant and its sharpness."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=60,
    paper_seconds=16_000,  # by its work against quick scale; not run
)
