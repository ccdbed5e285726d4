"""Numbers of nearly orthogonal directions: random, greedy, optimised, learned, and the bounds."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=45,
    paper_seconds=4_000,  # by its work against quick scale; not run
)
