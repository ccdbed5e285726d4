"""Correlated and anticorrelated features: how sets of them arrange, and when pairs collapse."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=70,
    budget_seconds=75,
    evening_seconds=2600,  # by its work against 48 seeds
    paper_seconds=900,  # by its work against quick scale; not run
)
