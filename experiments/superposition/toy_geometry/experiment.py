"""The geometry of uniform superposition: dimensions per feature, and the polytopes behind them.

All features have importance 1 and one density, and there are many more of them than dimensions
("Toy Models of Superposition", uniform superposition). Beside the trained networks stands the exact
theory of that limit: which polytope saves most loss for every hidden dimension.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kit.members import crossed_training, each_member
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.climb import TEGUM_FACTORS, tegum_gains
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import dimensionality, dimensions_per_feature
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyProblem
from experiments.superposition.shared.cells import cells_over
from experiments.superposition.toy_geometry.labels import NAMES, labels


@dataclass(frozen=True)
class Spec:
    """A sweep over density with equal importances.

    Attributes:
        n_features: n; the paper has 400, its notebook 200.
        n_hidden: m; the paper has 30, its notebook 20.
        inverse_density: 1/p.
        theory_points: Densities between the first and last one for the exact theory.
        seeds: Independent initialisations and data streams; the same at all densities.
        batch_size: Fresh samples a step.
        optim: Of the official notebook except rate and schedule.
    """

    n_features: Annotated[int, "(n_hidden, inf)"] = 80
    n_hidden: Positive = 8
    inverse_density: Annotated[tuple[float, ...], "[1, inf)", "increasing"] = (1.0, 2.0, 4.0)
    theory_points: Annotated[int, "[2, inf)"] = 81
    seeds: Positive = 8
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every (seed, density) at once; measure geometry; compute the exact theory."""
    n, m = spec.n_features, spec.n_hidden
    density = 1 / np.asarray(spec.inverse_density, float)
    problem = ToyProblem(ToySpec(n, m), spec.batch_size, Convention.sum)
    cells = cells_over(density, np.ones(n))
    trained = crossed_training(lab, "train", key, problem, spec.optim, cells, seeds=spec.seeds)
    W = trained.models.W
    dims, shape = ("seed", "inverse_density"), (spec.seeds, len(density))
    axis = np.geomspace(spec.inverse_density[0], spec.inverse_density[-1], spec.theory_points)
    theory = lab.stage("theory", _theory, 1 / axis)
    found = {
        "dimensionality": each_member(dimensionality)(W),
        "dimensions_per_feature": each_member(dimensions_per_feature)(W),
        "polytope": lab.stage("labels", labels, np.asarray(W)),
        "alive": trained.alive,
    }
    arrays: dict[str, Any] = {
        name: ((*dims, "feature")[: 1 + np.ndim(v)], np.asarray(v).reshape(*shape, *v.shape[1:]))
        for name, v in found.items()
    }
    arrays |= {
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
        "selection": "none: all seeds are shown and count",
    }
    return xr.Dataset(arrays, coords, notes)


def _theory(density: np.ndarray) -> dict[str, np.ndarray]:
    """Gain of every polytope for each dimension, and its norm."""
    with jax.enable_x64(True):
        found = tegum_gains(jnp.asarray(density, jnp.float64))
        return {"gain": np.asarray(found.gain), "norm": np.asarray(found.norm)}
