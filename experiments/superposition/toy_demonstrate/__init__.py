"""Superposition demonstrated: linear and ReLU models over sparsity, at three sizes."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    budget_seconds=50,
    evening_seconds=600,  # by processor time; 2,691 were measured beside other programs
    paper_seconds=2_400,  # by its work against quick scale; not run
)
