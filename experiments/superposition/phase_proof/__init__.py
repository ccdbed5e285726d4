"""The phase diagram as a theorem: which solution of two features is globally optimal, and where."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=45,
    evening_seconds=75,
    paper_seconds=2_400,  # by its work against quick scale; not run
)
