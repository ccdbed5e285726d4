"""The phase diagram of superposition: closed forms, exact optimum and trained networks.

All features have one density, all but the last one have importance 1. Over density and importance
of the last feature, the diagram shows what becomes of it: it is ignored, it shares dimensions with
other features, or it has one of its own ("Toy Models of Superposition", phase change).
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kit.members import crossed_training, file_name_of, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import (
    Configuration,
    Convention,
    best_configuration,
    exact_losses,
)
from circuitax.superposition.features import interference_sq, norms
from circuitax.superposition.optimum import find_optimum
from circuitax.training.ensemble import RULE, best_of, take
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.shared.cells import by_cell

MODELS = {"n=2, m=1": (2, 1), "n=3, m=2": (3, 2)}
RANGES = {"importance": (0.1, 10.0), "density": (0.01, 1.0)}  # as in the paper's figure


@dataclass(frozen=True)
class Spec:
    """Grids over density (0.01 to 1) and importance of the last feature (0.1 to 10), logarithmic.

    Attributes:
        theory_grid: Points a side for the closed forms.
        exact_grid: Points a side for the exact optimum.
        trained_grid: Points a side for the trained networks.
        restarts: Random starts of the optimum in each cell.
        seeds: Trained networks in each cell, of which the best counts (the paper has ten).
        batch_size: Fresh samples a step.
        optim: The paper does not state it.
    """

    theory_grid: Annotated[int, "[2, inf)"] = 128
    exact_grid: Annotated[int, "[2, inf)"] = 32
    trained_grid: Annotated[int, "[2, inf)"] = 16
    restarts: Positive = 10
    seeds: Positive = 10
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Three pictures of the last feature for each of the two published models."""
    grids = {"theory": spec.theory_grid, "optimum": spec.exact_grid, "trained": spec.trained_grid}
    parts, members = [], {}
    for name in MODELS:
        short = file_name_of(name)
        theory = lab.stage(f"theory-{short}", _theory, spec, name)
        optimum = lab.stage(f"optimum-{short}", _optimum, derive(key, "optimum"), spec, name)
        trained, seeds, members[name] = _trained(derive(key, name), spec, name, lab)
        arrays: dict[str, Any] = {}
        for source, found in (("theory", theory), ("optimum", optimum), ("trained", trained)):
            dims, shape = [f"{axis}_{source}" for axis in RANGES], (grids[source], grids[source])
            arrays |= {f"{source}_{k}": (dims, v.reshape(shape)) for k, v in found.items()}
        cell = [f"{axis}_trained" for axis in RANGES]
        arrays |= {
            f"seeds_{k}": ([*cell, "seed"], v.reshape(spec.trained_grid, spec.trained_grid, -1))
            for k, v in seeds.items()
        }
        parts.append(xr.Dataset(arrays))
    coords: dict[str, Any] = {"model": list(MODELS), "seed": np.arange(spec.seeds)}
    for source, size in grids.items():
        coords |= {f"{axis}_{source}": _axis(axis, size) for axis in RANGES}
    notes = {
        "loss": "sum over features, exact expectation, also for the trained networks",
        "selection": RULE,
        "members": members,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_std": {k: ToySpec(n, m).weight_std(n, m) for k, (n, m) in MODELS.items()},
    }
    return xr.concat(parts, dim="model").assign_coords(coords).assign_attrs(notes)


def _axis(name: str, size: int) -> np.ndarray:
    return np.geomspace(*RANGES[name], size)


def _cells(size: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Density and importance of every feature in every cell, ``[cell, n]``, density fastest."""
    last, density = np.meshgrid(*(_axis(name, size) for name in RANGES), indexing="ij")
    importance = np.ones((size * size, n))
    importance[:, -1] = last.ravel()
    return np.repeat(density.reshape(-1, 1), n, axis=1), importance


def _theory(spec: Spec, name: str) -> dict[str, np.ndarray]:
    """The best of four hand-made configurations in every cell."""
    n, _ = MODELS[name]
    density, importance = (jnp.asarray(a[:, -1]) for a in _cells(spec.theory_grid, n))
    which, _ = best_configuration(density, importance, n)
    return {
        "norm": np.where(which == Configuration.ignore_last, 0.0, 1.0),
        "interference": np.where(which == Configuration.pair_last, 1.0, 0.0),
    }


def _optimum(key: jax.Array, spec: Spec, name: str) -> dict[str, np.ndarray]:
    """The exact optimum in every cell, with the loss of the best closed form."""
    n, m = MODELS[name]
    density, importance = _cells(spec.exact_grid, n)
    with jax.enable_x64(True):
        p, weight = jnp.asarray(density), jnp.asarray(importance)
        found = find_optimum(key, p, weight, n_hidden=m, n_restarts=spec.restarts, thorough=False)
        _, closed_form = best_configuration(p[:, -1], weight[:, -1], n)
        return _picture(found.weights.W, found.loss) | {"closed_form": np.asarray(closed_form)}


def _trained(
    key: jax.Array, spec: Spec, name: str, lab: Lab
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]:
    """All cells and seeds in one ensemble: the best seed of each cell by exact expected loss, and
    every seed ``[cell, seed]``.
    """
    n, m = MODELS[name]
    density, importance = _cells(spec.trained_grid, n)
    cells = ToyHyper(jnp.asarray(density, float), jnp.asarray(importance, float))
    problem = ToyProblem(ToySpec(n, m), spec.batch_size, Convention.sum)
    trained = crossed_training(
        lab, f"train-{file_name_of(name)}", key, problem, spec.optim, cells, seeds=spec.seeds
    )
    loss = exact_losses(trained.models, *in_every_seed(cells, spec.seeds))
    with jax.enable_x64(True):
        W, losses, alive = (
            jnp.asarray(by_cell(members, spec.seeds))
            for members in (np.asarray(trained.models.W, np.float64), loss, trained.alive)
        )
        best = best_of(losses, alive)
        found = _picture(take(W, best.restart), best.loss)
        seeds = {
            "loss": np.where(alive, losses, np.nan),
            "norm": np.asarray(jax.vmap(jax.vmap(norms))(W)[..., -1], np.float32),
            "interference": np.asarray(jax.vmap(jax.vmap(interference_sq))(W)[..., -1], np.float32),
        }
    return found, seeds, trained.divergence


def _picture(W: Array, loss: Array) -> dict[str, np.ndarray]:
    """The last feature in every cell, with the loss of the network."""
    return {
        "norm": np.asarray(jax.vmap(norms)(W)[:, -1]),
        "interference": np.asarray(jax.vmap(interference_sq)(W)[:, -1]),
        "loss": np.asarray(loss),
    }
