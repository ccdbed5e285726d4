"""The geometry of uniform superposition: dimensions per feature, and the polytopes behind them.

All features have importance 1 and one density, and there are many more of them than dimensions
("Toy Models of Superposition", uniform superposition). Beside the trained networks stands the exact
theory of that limit: which polytope saves most loss for every hidden dimension.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kit.arms import crossed_training
from circuitax.kit.checks import require_at_least, require_below, require_divides, require_in
from circuitax.kit.members import each_member
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.records.record import Record
from circuitax.superposition.climb import TEGUM_FACTORS, tegum_gains
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import dimensionality, dimensions_per_feature, norms
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.toy_geometry.labels import NAMES, labels


@dataclass(frozen=True)
class Spec:
    """A sweep over density with equal importances.

    Attributes:
        n_features: n, above ``n_hidden``; the paper has 400, its notebook 200.
        n_hidden: m, at least 1; the paper has 30, its notebook 20.
        inverse_density: 1/p, increasing, each at least 1.
        theory_points: Densities between the first and last one for the exact theory, at least 2.
        seeds: Independent initialisations and data streams, at least 1; the same at all densities.
        batch_size: Fresh samples a step, at least 1.
        optim: Of the official notebook except rate and schedule.
        chunk: Steps between two checkpoints, a divisor of ``optim.steps``.
        represented: Norm above which a feature counts as represented, positive.
        edge: Least absolute cosine that joins two features in the feature graph, in (0, 1).
        spread: Largest distance of a D_i from that of the named polytope, at least 0.
    """

    n_features: int = 80
    n_hidden: int = 8
    inverse_density: Any = (1.0, 2.0, 4.0)
    theory_points: int = 81
    seeds: int = 8
    batch_size: int = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: int = 100
    represented: float = 0.5
    edge: float = 0.2
    spread: float = 0.05

    def __post_init__(self) -> None:
        require_at_least(self, 1, "n_hidden", "inverse_density", "seeds", "batch_size", "chunk")
        require_at_least(self, 2, "theory_points")
        require_below(self, "n_features", "n_hidden")
        require_in(self, "(0, 1)", "edge")
        require_in(self, "(0, 2]", "represented")
        require_at_least(self, 0, "spread")
        require_divides(self, "chunk", "optim.steps")
        require_arrays(
            self,
            "3 seeds inverse_density n_features n_hidden",
            "seeds inverse_density batch_size n_features",
            "10 theory_points",
        )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every (seed, density) at once; measure geometry; compute the exact theory."""
    n, m = spec.n_features, spec.n_hidden
    density = 1 / np.asarray(spec.inverse_density, float)
    p = jnp.asarray(np.repeat(density[:, None], n, axis=1))
    problem = ToyProblem(ToySpec(n, m), spec.batch_size, Convention.sum)
    trained = crossed_training(
        lab,
        "train",
        key,
        problem,
        spec.optim,
        ToyHyper(p, jnp.ones_like(p)),
        seeds=spec.seeds,
        chunk=spec.chunk,
    )
    W = trained.models.W
    dims, shape = ("seed", "inverse_density"), (spec.seeds, len(density))
    norm = np.asarray(each_member(norms)(W))
    tolerances = {"represented": spec.represented, "edge": spec.edge, "spread": spec.spread}
    named = lab.stage("labels", labels, np.asarray(W), *tolerances.values())
    of_features: dict[str, Any] = {
        "norm": norm,
        "dimensionality": np.asarray(each_member(dimensionality)(W)),
        "polytope": named,
    }
    axis = np.geomspace(spec.inverse_density[0], spec.inverse_density[-1], spec.theory_points)
    theory = lab.stage("theory", _theory, 1 / axis)
    arrays: dict[str, Any] = {
        name: ((*dims, "feature"), value.reshape(*shape, n)) for name, value in of_features.items()
    }
    arrays |= {
        "dimensions_per_feature": (
            dims,
            np.asarray(each_member(dimensions_per_feature)(W)).reshape(shape),
        ),
        "alive": (dims, trained.alive.reshape(shape)),
        "train_loss": (dims, trained.training_loss[-1].reshape(shape)),
        "factor_features": ("factor", np.array([k for k, _ in TEGUM_FACTORS.values()])),
        "factor_dimensions": ("factor", np.array([r for _, r in TEGUM_FACTORS.values()])),
        **{f"theory_{k}": (("factor", "theory_inverse_density"), v) for k, v in theory.items()},
    }
    coords = {
        "seed": np.arange(spec.seeds),
        "inverse_density": np.asarray(spec.inverse_density, float),
        "theory_inverse_density": axis,
        "factor": list(TEGUM_FACTORS),
        "name": list(NAMES),
    }
    notes = {
        "n_hidden": m,
        "polytope": "number of a name; -1: not represented",
        "members": trained.divergence,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "convention": "sum over features",
        "weight_decay": spec.optim.weight_decay,
        "init_std": ToySpec(n, m).weight_std(n, m),
        "tolerances": tolerances,
        "selection": "none: all seeds are shown and count",
    }
    return Record(data=xr.Dataset(arrays, coords), notes=notes)


def _theory(density: np.ndarray) -> dict[str, np.ndarray]:
    """Gain of every polytope for each dimension, and its norm."""
    with jax.enable_x64(True):
        found = tegum_gains(jnp.asarray(density, jnp.float64))
        return {"gain": np.asarray(found.gain), "norm": np.asarray(found.norm)}
