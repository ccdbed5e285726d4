"""Training sets of T points: from T-gons of samples to a pentagon of features."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=170,
    budget_seconds=45,
    evening_seconds=230,  # 226 were measured beside other programs
    paper_seconds=2_000_000,  # by its work against quick scale; not run
)
