"""The recipe of the text models, measured: each depth at the best of several optimizers."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=60,
    evening_seconds=1_700,  # by speeds of a pilot; 2,386 were measured beside other programs
    paper_seconds=5_000_000,  # by its work against quick scale; not run
)
