"""Evaluators of heads, tried on heads whose strength is known because it was planted."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=50,
    budget_seconds=20,
    evening_seconds=60,
    paper_seconds=100,
)
