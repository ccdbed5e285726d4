"""Transformers of zero, one and two layers on real text: what each layer is worth, in nats."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=10,
    budget_seconds=170,
    evening_seconds=4_100,  # 4,620 were measured beside other programs
    paper_seconds=3_300_000,  # by its work against quick scale; not run
)
