"""Dictionary learning without noise: four autoencoders on targets whose true features are known."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=160,
    budget_seconds=75,
    evening_seconds=900,
    paper_seconds=10_000,  # by its work against quick scale; not run
)
