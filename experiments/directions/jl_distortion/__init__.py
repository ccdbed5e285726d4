"""Johnson–Lindenstrauss distortion against m: map families, point clouds, numbers of points."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment(
    place=20,
    requires=("text_models",),
    budget_seconds=20,
    evening_seconds=25,  # 21 were measured
    paper_seconds=300,  # by its work against quick scale; not run
)
