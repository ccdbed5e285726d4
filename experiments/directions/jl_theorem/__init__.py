"""Theorem 27 and Corollary 28 of S0, as printed, as proved and as corrected (E8, E9, E10)."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=20,
    paper_seconds=2_000,  # by its work against quick scale; not run
)
