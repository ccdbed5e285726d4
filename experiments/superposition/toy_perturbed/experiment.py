"""Non-uniform superposition: one of five features is made denser or sparser than the others.

Five equal features in two dimensions form a pentagon. A denser feature pushes the others away, a
sparser one lets them close in, until the solution snaps into two digons without it ("Toy Models of
Superposition", non-uniform superposition; n = 5, m = 2). Both branches are followed exactly.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kit.members import crossed_training, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention, exact_losses
from circuitax.superposition.optimum import N_FEATURES, perturbed_branches
from circuitax.training.ensemble import RULE
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.shared.cells import networks

N_HIDDEN = 2


@dataclass(frozen=True)
class Spec:
    """Ratios of the last feature's density to that of the other four.

    Attributes:
        density: Density of the other four features; 0.05 in the paper.
        ratio: Ratios at which networks are trained; ``density * ratio`` is at most 1.
        exact_points: Ratios of the exact branches from the first to the last of ``ratio``,
            logarithmic.
        base: Densities of the other four at which the crossing is sought: above 0.22 two digons are
            best for equal features too.
        base_points: Ratios from 0.02 to 1 at every base.
        seeds: Independent initialisations and data streams, the same at every ratio.
        batch_size: Fresh samples a step.
        optim: The paper does not state it.
    """

    density: Annotated[float, "(0, 1]"] = 0.05
    ratio: Annotated[Any, "(0, 20]", "increasing"] = (0.25, 1.0, 4.0)
    exact_points: Annotated[int, "[3, inf)"] = 31
    base: Annotated[Any, "(0, 0.2]", "increasing"] = (0.05, 0.1)
    base_points: Annotated[int, "[3, inf)"] = 25
    seeds: Positive = 16
    batch_size: Positive = 512
    optim: OptimSpec = field(default_factory=OptimSpec)

    def __post_init__(self) -> None:
        if self.density * max(self.ratio) > 1:
            raise ValueError(f"ratio={self.ratio} must be at most 1 / density={self.density}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every (seed, ratio) at once; follow both branches exactly, over ratio and base."""
    ratio = np.asarray(spec.ratio, float)
    p = np.full((len(ratio), N_FEATURES), spec.density)
    p[:, -1] *= ratio
    cells = ToyHyper(jnp.asarray(p), jnp.ones(p.shape))
    problem = ToyProblem(ToySpec(N_FEATURES, N_HIDDEN), spec.batch_size, Convention.sum)
    trained = crossed_training(lab, "train", key, problem, spec.optim, cells, seeds=spec.seeds)
    everywhere = in_every_seed(cells, spec.seeds)
    loss = lab.stage("exact", exact_losses, trained.models, *everywhere)
    arrays = networks(trained.models, trained.alive, loss, seed=spec.seeds, ratio=len(ratio))
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
    over_base = exact[len(axis) :].reshape(len(bases), len(branch_axis), 2)
    arrays |= {
        "exact_loss": (("branch", "exact_ratio"), exact[: len(axis)].T),
        "base_loss": (("base", "base_ratio", "branch"), over_base),
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
    return xr.Dataset(arrays, coords, notes)


def _branches(density: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """Loss of both branches, ``[cell, 2]``."""
    with jax.enable_x64(True):
        loss, _, _ = perturbed_branches(
            jnp.asarray(density, jnp.float64), jnp.asarray(ratio, jnp.float64)
        )
        return np.stack([np.asarray(a) for a in loss], axis=1)
