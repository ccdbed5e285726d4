"""The induction circuit on real text: composition, corner, repeats and worth of its paths."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=100,
    requires=("text_induction",),
    budget_seconds=30,
    paper_seconds=4_500,  # by its work against quick scale; not run
)
