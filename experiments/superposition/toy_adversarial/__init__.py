"""Superposition makes a toy model easy to attack: vulnerability over features per dimension."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=150,
    budget_seconds=75,
    evening_seconds=580,
    paper_seconds=20_000,  # by its work against quick scale; not run
)
