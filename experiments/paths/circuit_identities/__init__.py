"""Identities of circuits on random models, and what scores are before any training."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=30,
    paper_seconds=60,
)
