"""Growth with size: processor time and memory of six computations of this library."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=30,
    evening_seconds=75,
    paper_seconds=1_200,  # by its work against quick scale; not run
    alone=True,  # what it measures is time
)
