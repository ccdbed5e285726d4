"""A model without layers learns the bigram table; the direct path of a one-layer model does not."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    requires=("text_models",),
    budget_seconds=35,
    evening_seconds=140,
    paper_seconds=150_000,  # by its work against quick scale; not run
)
