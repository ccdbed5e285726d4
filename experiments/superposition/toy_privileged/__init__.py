"""A hidden ReLU gives features a basis to align with: neurons of one feature, and of several."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=130,
    budget_seconds=30,
    evening_seconds=300,  # 660 were measured beside other programs
    paper_seconds=60_000,  # by its work against quick scale; not run
)
