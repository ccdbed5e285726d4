"""The geometry of uniform superposition: dimensions per feature, and the polytopes behind them."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=60,
    budget_seconds=45,
    evening_seconds=1_200,  # 1,160 were measured beside other programs
    paper_seconds=40_000,  # by its work against quick scale; not run
)
