"""Learning dynamics: features change their dimensionality, and an octahedron forms in regimes."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=120,
    budget_seconds=60,
    evening_seconds=100,  # 164 were measured beside other programs
    paper_seconds=1200,  # by its work against quick scale; not run
)
