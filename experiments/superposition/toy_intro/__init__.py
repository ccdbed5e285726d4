"""Five features in two dimensions: trained networks beside the exact optimum, over sparsity."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=60,
    evening_seconds=240,  # 240 were measured beside other programs
    paper_seconds=600,  # by its work against quick scale; not run
)
