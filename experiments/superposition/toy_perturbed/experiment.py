"""Non-uniform superposition: one of five features is made denser or sparser than the others.

Five equal features in two dimensions form a pentagon. A denser feature pushes the others away, a
sparser one lets them close in, until the solution snaps into two digons without it ("Toy Models of
Superposition", non-uniform superposition; n = 5, m = 2). Both branches are followed exactly.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kit.arms import crossed_training, in_every_seed
from circuitax.kit.checks import (
    require_at_least,
    require_at_most,
    require_divides,
    require_in,
    require_increasing,
)
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.records.record import Record
from circuitax.superposition.exact_losses import exact_losses
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.optimum import N_FEATURES, perturbed_branches
from circuitax.training.ensemble import RULE, best_of
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem

N_HIDDEN = 2


@dataclass(frozen=True)
class Spec:
    """Ratios of the last feature's density to that of the other four.

    Attributes:
        density: Density of the other four features, in (0, 1]; 0.05 in the paper.
        ratio: Ratios at which networks are trained, increasing; ``density * ratio`` is at most 1.
        exact_points: Ratios of the exact branches from the first to the last of ``ratio``,
            logarithmic, at least 3.
        base: Densities of the other four at which the crossing is sought, increasing, in (0, 0.2]:
            above 0.22 two digons are best for equal features too.
        base_points: Ratios from 0.02 to 1 at every base, at least 3.
        seeds: Independent initialisations and data streams, at least 1; the same at every ratio.
        batch_size: Fresh samples a step, at least 1.
        optim: The paper does not state it.
        chunk: Steps between two checkpoints, a divisor of ``optim.steps``.
    """

    density: float = 0.05
    ratio: Any = (0.25, 1.0, 4.0)
    exact_points: int = 31
    base: Any = (0.05, 0.1)
    base_points: int = 25
    seeds: int = 16
    batch_size: int = 512
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: int = 100

    def __post_init__(self) -> None:
        require_in(self, "(0, 1]", "density")
        require_in(self, "(0, 0.2]", "base")
        require_in(self, "(0, 20]", "ratio")
        require_increasing(self, "ratio", length=2)
        require_increasing(self, "base", length=2)
        require_at_least(self, 3, "exact_points", "base_points")
        require_at_least(self, 1, "seeds", "batch_size", "chunk")
        require_at_most(self, 1 / self.density, "ratio", why="a density is at most 1")
        require_divides(self, "chunk", "optim.steps")
        require_arrays(self, "seeds ratio batch_size")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every (seed, ratio) at once; follow both branches exactly, over ratio and base."""
    ratio = np.asarray(spec.ratio, float)
    p = np.full((len(ratio), N_FEATURES), spec.density)
    p[:, -1] *= ratio
    cells = ToyHyper(jnp.asarray(p), jnp.ones(p.shape))
    problem = ToyProblem(ToySpec(N_FEATURES, N_HIDDEN), spec.batch_size, Convention.sum)
    trained = crossed_training(
        lab, "train", key, problem, spec.optim, cells, seeds=spec.seeds, chunk=spec.chunk
    )
    everywhere = in_every_seed(cells, spec.seeds)
    dims, shape = ("seed", "ratio"), (spec.seeds, len(ratio))
    loss = lab.stage("exact", exact_losses, trained.models, *everywhere).reshape(shape)
    alive = trained.alive.reshape(shape)
    loss = np.where(alive, loss, np.nan)
    W, b = np.asarray(trained.models.W), np.asarray(trained.models.b)

    axis = np.geomspace(ratio[0], ratio[-1], spec.exact_points)
    branch_axis = np.geomspace(0.02, 1, spec.base_points)
    bases = np.asarray(spec.base, float)
    grid = [a.ravel() for a in np.meshgrid(bases, branch_axis, indexing="ij")]
    exact = lab.stage(
        "branches",
        _branches,
        np.concatenate([np.full_like(axis, spec.density), grid[0]]),
        np.concatenate([axis, grid[1]]),
    )
    over_ratio = {k: v[: len(axis)] for k, v in exact.items()}
    over_base = {k: v[len(axis) :] for k, v in exact.items() if k != "W"}
    arrays: dict[str, Any] = {
        "loss": (dims, loss),
        "alive": (dims, alive),
        "W": ((*dims, "hidden", "feature"), W.reshape(*shape, *W.shape[1:])),
        "b": ((*dims, "feature"), b.reshape(*shape, -1)),
        "best": ("ratio", np.asarray(best_of(jnp.asarray(loss.T), jnp.asarray(alive.T)).restart)),
        "exact_W": (("exact_ratio", "branch", "hidden", "feature"), over_ratio.pop("W")),
        **{f"exact_{k}": (("branch", "exact_ratio"), v.T) for k, v in over_ratio.items()},
        **{
            f"base_{k}": (
                ("base", "base_ratio", "branch"),
                v.reshape(len(bases), len(branch_axis), 2),
            )
            for k, v in over_base.items()
        },
    }
    coords = {
        "seed": np.arange(spec.seeds),
        "ratio": ratio,
        "exact_ratio": axis,
        "base": bases,
        "base_ratio": branch_axis,
        "branch": ["two digons", "pentagon"],
    }
    notes = {
        "density": spec.density,
        "loss": "sum over features, exact expectation, also for the trained networks",
        "selection": RULE,
        "members": trained.divergence,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_std": ToySpec().weight_std(N_FEATURES, N_HIDDEN),
    }
    return Record(data=xr.Dataset(arrays, coords), notes=notes)


def _branches(density: np.ndarray, ratio: np.ndarray) -> dict[str, np.ndarray]:
    """Loss of both branches, norm of the perturbed feature, and the solutions, ``[cell, 2]``."""
    with jax.enable_x64(True):
        loss, norm, weights = perturbed_branches(
            jnp.asarray(density, jnp.float64), jnp.asarray(ratio, jnp.float64)
        )
        return {
            "loss": np.stack([np.asarray(a) for a in loss], axis=1),
            "norm": np.stack([np.asarray(a) for a in norm], axis=1),
            "W": np.asarray(weights.W),
        }
