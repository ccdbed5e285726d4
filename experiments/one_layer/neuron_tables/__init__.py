"""Neurons as a memory: which tokens each reads and writes, and whether its values come true."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=60,
    requires=("text_models",),
    budget_seconds=20,
    paper_seconds=60,  # by its work against quick scale; not run
)
