"""Parameter decomposition without noise: rank-one subcomponents of models whose parts are known."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=180,
    budget_seconds=60,
    evening_seconds=1_800,  # 3,060 were measured beside other programs
    paper_seconds=100_000,  # by its work against quick scale; not run
)
