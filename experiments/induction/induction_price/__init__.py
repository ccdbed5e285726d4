"""The price of an induction head: tokens until one forms, against how much of the text repeats."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=50,
    evening_seconds=2_100,  # 2,770 were measured beside other programs
    paper_seconds=300_000,  # by its work against quick scale; not run
)
