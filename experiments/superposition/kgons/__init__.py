"""One-hot data: the exact potentials of regular k-gons, and whether training stays at them."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=90,
    budget_seconds=60,
    paper_seconds=600,  # by its steps against quick scale; not run
)
