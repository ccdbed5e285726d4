"""An induction head on real text: what it takes, what it is worth there, and what it costs."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=90,
    budget_seconds=180,
    evening_seconds=1_200,  # 3,200 were measured beside other programs
    paper_seconds=2_800_000,  # by its work against quick scale; not run
)
