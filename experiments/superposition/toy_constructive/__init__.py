"""Constructive arrangements: twelve features that depend on each other, and as many that do not."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=100,
    budget_seconds=60,
    evening_seconds=130,  # 409 were measured beside other programs
    paper_seconds=1500,  # by its work against quick scale; not run
)
