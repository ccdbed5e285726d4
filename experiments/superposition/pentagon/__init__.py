"""The pentagon network of Example 26: five features in two neurons, and what they cannot carry."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=110,
    budget_seconds=10,
    paper_seconds=10,
)
