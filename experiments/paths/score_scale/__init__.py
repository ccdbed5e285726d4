"""Unscaled scores grow with the width of a head and saturate the softmax; 1/sqrt(d_k) stops it."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=60,
    evening_seconds=450,  # 880 were measured beside other programs
    paper_seconds=8_400,  # by its work against quick scale; not run
)
