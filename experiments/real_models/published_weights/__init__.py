"""Published models against published numbers, where their weights are at hand; no download."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=10,
    paper_seconds=600,  # by its work against quick scale; not run
)
