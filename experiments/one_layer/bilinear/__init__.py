"""Text models with bilinear MLPs, read from their weights, beside GELU ones of equal size."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(place=70, budget_seconds=90, evening_seconds=2_400, paper_seconds=400_000)
