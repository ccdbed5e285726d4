"""Induction heads form in a phase change, with two layers or smeared keys, not with one layer."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=70,
    evening_seconds=360,  # by its work against quick scale; not run
    paper_seconds=6_000,  # by its work against quick scale; not run
)
