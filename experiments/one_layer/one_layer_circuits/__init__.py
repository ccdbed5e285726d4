"""One layer on real text: skip-trigrams read from weights, copying, positions, bugs, additivity."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=50,
    requires=("text_models",),
    budget_seconds=80,
    evening_seconds=960,  # 1,600 were measured beside other programs
    paper_seconds=650_000,  # by its work against quick scale; not run
)
