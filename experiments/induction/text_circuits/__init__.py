"""Two layers on real text: what paths of each order are worth, what heads look at, who composes."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=70,
    requires=("text_models",),
    budget_seconds=25,
    paper_seconds=8_500,  # by its work against quick scale; not run
)
