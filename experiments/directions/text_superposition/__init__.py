"""Superposition in real models: tokens and neurons as directions, beside random directions."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=60,
    budget_seconds=170,
    evening_seconds=500,
    paper_seconds=6_500,
)
