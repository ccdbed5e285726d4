"""Non-uniform superposition: one of five features is made denser or sparser than the others."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=80,
    budget_seconds=60,
    paper_seconds=600,  # by its work against quick scale; not run
)
