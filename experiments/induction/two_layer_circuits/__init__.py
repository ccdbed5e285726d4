"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=60,
    evening_seconds=300,
    paper_seconds=4_300,  # by its work against quick scale; not run
)
