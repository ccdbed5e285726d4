"""Roles of heads, told apart by their attention, by their writes, and by patching."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=60,
    requires=("two_layer_circuits", "text_models"),
    budget_seconds=40,
    paper_seconds=8_000,  # by its work against quick scale; not run
)
