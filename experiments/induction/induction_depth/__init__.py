"""Induction heads of models of several depths and widths, on repeated random tokens."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    budget_seconds=60,
    evening_seconds=800,
    paper_seconds=9_000,  # by its work against quick scale; not run
)
