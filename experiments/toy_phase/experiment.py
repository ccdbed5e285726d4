"""The phase diagram: closed forms, exact optimum and trained networks on one scale."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive, member_keys
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.records.record import Record
from circuitax.superposition.expected_loss import Convention, expected_loss
from circuitax.superposition.optimum import find_optimum
from circuitax.superposition.phase_theory import best_configuration
from circuitax.training import ensemble
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member
from circuitax.training.selection import RULE, best_of, divergence, take
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.toy_phase.claims import CLAIMS as CLAIMS
from experiments.toy_phase.claims import SPOTS, last_feature, measure

BUDGET_SECONDS = 50
PAPER_SECONDS = 6_000  # by its work against quick scale; not run
SHAPES = {"n=2, m=1": (2, 1), "n=3, m=2": (3, 2)}
RANGES = {"density": (0.01, 1.0), "importance": (0.1, 10.0)}  # as in the paper's figure


@dataclass(frozen=True)
class Spec:
    """Grids over density (0.01 to 1) and importance of the last feature (0.1 to 10), logarithmic.

    Attributes:
        theory_grid: Points a side for the closed forms, at least 2.
        exact_grid: Points a side for the exact optimum, at least 2.
        trained_grid: Points a side for the trained networks, at least 2.
        restarts: Random starts of the optimum in each cell, at least 1.
        seeds: Trained networks in each cell, of which the best counts (the paper has ten).
        batch_size: Fresh samples a step, at least 1.
        optim: The paper does not state it.
        chunk: Steps between two returns to Python, a divisor of ``optim.steps``.
    """

    theory_grid: int = 128
    exact_grid: int = 32
    trained_grid: int = 16
    restarts: int = 10
    seeds: int = 10
    batch_size: int = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: int = 100

    def __post_init__(self) -> None:
        limits = {"theory_grid": 2, "exact_grid": 2, "trained_grid": 2, "restarts": 1, "seeds": 1,
                  "batch_size": 1, "chunk": 1}  # fmt: skip
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if self.optim.steps % self.chunk:
            raise ValueError(f"chunk={self.chunk} must divide optim.steps={self.optim.steps}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Three pictures of the last feature for each of the two published shapes."""
    parts, spots, members = [], {}, {}
    for name, (n, m) in SHAPES.items():
        short = name.replace(", ", "-")
        theory = lab.stage(f"theory-{short}", _theory, spec, n)
        optimum = lab.stage(f"optimum-{short}", _optimum, derive(key, "optimum"), spec, name)
        trained, report = _trained(derive(key, name), spec, n, m, short, lab)
        spots[name] = {"W": optimum.pop("spots_W"), "loss": optimum.pop("spots_loss")}
        members[name] = report
        arrays: dict[str, Any] = {}
        for source, found in (("theory", theory), ("optimum", optimum), ("trained", trained)):
            dims = (f"importance_{source}", f"density_{source}")
            arrays |= {f"{source}_{k}": (dims, v) for k, v in found.items()}
        parts.append(xr.Dataset(arrays))
    coords: dict[str, Any] = {"model": list(SHAPES)}
    for source, size in (
        ("theory", spec.theory_grid),
        ("optimum", spec.exact_grid),
        ("trained", spec.trained_grid),
    ):
        coords |= {f"{axis}_{source}": _axis(axis, size) for axis in RANGES}
    data = xr.concat(parts, dim="model").assign_coords(coords)
    measured, unmet = measure(data, spots, spec.seeds)
    notes = {
        "loss": "sum over features, exact expectation, also for the trained networks",
        "selection": RULE,
        "members": members,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_std": {k: ToySpec(n, m).weight_std(n, m) for k, (n, m) in SHAPES.items()},
    }
    data = data.assign_coords(seed=np.arange(spec.seeds))
    return Record(data=data, measured=measured, unmet=unmet, notes=notes)


def _axis(name: str, size: int) -> np.ndarray:
    return np.geomspace(*RANGES[name], size)


def _cells(size: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Density and importance of every feature in every cell, ``[cell, n]``, density fastest."""
    r, p = np.meshgrid(_axis("importance", size), _axis("density", size), indexing="ij")
    density = np.repeat(p.reshape(-1, 1), n, axis=1)
    importance = np.ones_like(density)
    importance[:, -1] = r.ravel()
    return density, importance


def _theory(spec: Spec, n: int) -> dict[str, np.ndarray]:
    density, importance = (a[:, -1] for a in _cells(spec.theory_grid, n))
    which, loss = best_configuration(jnp.asarray(density), jnp.asarray(importance), n)
    shape = (spec.theory_grid,) * 2
    ignored, shared = np.asarray(which) == 1, np.asarray(which) == 3
    return {
        "norm": np.where(ignored, 0.0, 1.0).reshape(shape),
        "interference": np.where(shared, 1.0, 0.0).reshape(shape),
        "loss": np.asarray(loss).reshape(shape),
    }


def _optimum(key: jax.Array, spec: Spec, name: str) -> dict[str, np.ndarray]:
    """The exact optimum on the grid, and behind it at the points that claims name."""
    n, m = SHAPES[name]
    size, places = spec.exact_grid, SPOTS[name]
    grid_density, grid_importance = _cells(size, n)
    density = np.concatenate([grid_density, [[p] * n for _, p in places]])
    importance = np.concatenate([grid_importance, [[*[1.0] * (n - 1), r] for r, _ in places]])
    with jax.enable_x64(True):
        p, weight = jnp.asarray(density), jnp.asarray(importance)
        found = find_optimum(key, p, weight, n_hidden=m, n_restarts=spec.restarts)
        W, loss, error, reached = (
            np.asarray(a) for a in (found.weights.W, found.loss, found.error, found.n_reached)
        )
        _, closed = best_configuration(p[:, -1], weight[:, -1], n)
        cells = size * size
        on_grid = _on_grid(size, W[:cells], loss[:cells], np.asarray(closed)[:cells])
        return on_grid | {
            "error": error[:cells].reshape(size, size),
            "reached": reached[:cells].reshape(size, size) / spec.restarts,
            "spots_W": W[cells:],
            "spots_loss": loss[cells:],
        }


def _trained(
    key: jax.Array, spec: Spec, n: int, m: int, short: str, lab: Lab
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All cells and seeds in one ensemble; the best seed of each cell by exact expected loss."""
    density, importance = _cells(spec.trained_grid, n)
    cells = len(density)
    tile = (spec.seeds, 1)
    hyper = ToyHyper(*(jnp.asarray(np.tile(a, tile), float) for a in (density, importance)))
    # Keys follow from the seed alone: a seed starts alike, and sees the same data, in every cell.
    init_key, data_key = (
        jnp.repeat(member_keys(derive(key, of), spec.seeds), cells) for of in ("init", "data")
    )
    rate = jnp.full(spec.seeds * cells, spec.optim.learning_rate)
    members = Member(init_key, data_key, rate, hyper)
    problem = ToyProblem(ToySpec(n, m), spec.batch_size, Convention.sum)
    plan = Plan(problem, spec.optim, spec.chunk, Mapping.vmap, common=cells)
    state, _ = lab.loop(
        f"train-{short}", ensemble.init(plan, members), ensemble.advance(plan, members),
        spec.optim.steps // spec.chunk, show="loss",
    )  # fmt: skip
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float64),
                            (state.params, *hyper))  # fmt: skip
        loss = jax.jit(jax.vmap(expected_loss))(*wide).value.reshape(spec.seeds, cells).T
        alive = jnp.asarray(np.asarray(state.alive)).reshape(spec.seeds, cells).T
        best = best_of(loss, alive)
        W = jnp.moveaxis(wide[0].W.reshape(spec.seeds, cells, m, n), 0, 1)
        _, closed = best_configuration(
            jnp.asarray(density[:, -1]), jnp.asarray(importance[:, -1]), n
        )
        found = _on_grid(spec.trained_grid, take(W, best.restart), best.loss, closed)
    return found, divergence(state.alive, state.step)


def _on_grid(size: int, W: Any, loss: Any, closed: Any) -> dict[str, np.ndarray]:
    norm, interference = last_feature(W)
    found = {"norm": norm, "interference": interference, "loss": loss, "closed_form": closed}
    return {name: np.asarray(value).reshape(size, size) for name, value in found.items()}
