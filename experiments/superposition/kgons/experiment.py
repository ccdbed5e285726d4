"""One-hot data: the exact potentials of regular k-gons, and whether training stays at them.

With one feature on at a time, every regular polygon of k features, the others left at zero, is a
critical point of the loss. Its loss L, the potential, follows from the polygon's best norm and bias
(Chen et al. 2023, arXiv 2310.06301). The Hessian at these points says which of them are minima, and
networks trained by stochastic gradient descent, on which losses they rest.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.checks import (
    require_at_least,
    require_at_most,
    require_divides,
    require_in,
    require_positive,
)
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import each_member
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from circuitax.superposition.kgons import (
    KGon,
    critical_point,
    kgon_potential,
    kgon_weights,
    one_hot_loss,
    optimal_kgon,
)
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, new_members
from circuitax.training.optim import OptimSpec
from experiments.superposition.kgons.problem import OneHotHyper, OneHotToy


@dataclass(frozen=True)
class Spec:
    """The polygons, their numbers of features, and the trained networks.

    Attributes:
        max_k: Greatest number of vertices, from 6 to 12.
        max_features: Greatest number of features c, at least ``max_k``.
        trained: Features c of the trained networks, from 4 to ``max_k``.
        seeds: Networks, each with its own start and data, at least 1.
        spread: Standard deviation of W at the start, positive.
        batch_size: Fresh samples of a step, at least 1.
        optim: Of the networks.
        every: Steps between two measurements of the exact loss, a divisor of ``optim.steps``.
    """

    max_k: int = 8
    max_features: int = 12
    trained: int = 6
    seeds: int = 32
    spread: float = 0.1
    batch_size: int = 100
    optim: OptimSpec = field(default_factory=OptimSpec)
    every: int = 100

    def __post_init__(self) -> None:
        require_in(self, "[6, 12]", "max_k")
        require_at_least(self, "max_k", "max_features")
        require_at_least(self, 4, "trained")
        require_at_most(self, "max_k", "trained")
        require_at_least(self, 1, "seeds", "batch_size", "every")
        require_positive(self, "spread")
        require_divides(self, "every", "optim.steps")
        require_arrays(
            self,
            "max_features max_features",
            "seeds batch_size trained",
        )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Optimal norm and bias of every k-gon, its potential and curvatures, and trained networks."""
    ks = list(range(4, spec.max_k + 1))
    cs = list(range(4, spec.max_features + 1))
    gons = [optimal_kgon(k) for k in lab.track(ks, "k-gons")]
    potential = np.full((2, len(ks), len(cs)), np.nan)
    for i, k in enumerate(ks):
        for j, c in enumerate(cs):
            for positive in range(min(2, c - k + 1)):
                potential[positive, i, j] = kgon_potential(gons[i].h, k, c, n_positive=positive)
    arrays: dict[str, Any] = {
        "norm": ("k", [gon.norm for gon in gons]),
        "bias": ("k", [gon.bias for gon in gons]),
        "potential": (("positive", "k", "n_features"), potential),
        **_spectra(ks, gons),
        **_trained(spec, derive(key, "train"), lab),
        # Up to four features, one on at a time, have orthogonal or opposite directions: no error.
        "h": ("vertices", [0.0, 0.0, 0.0, 0.0, *(gon.h for gon in gons)]),
    }
    coords = {
        "k": ks,
        "n_features": cs,
        "positive": [0, 1],
        "vertices": [0, 1, 2, 3, *ks],
    }
    notes = {
        "trained": spec.trained,
        "loss": "exact, of the weights at that step",
        "start": f"W ~ N(0, {spec.spread:g}^2), b = 0",
        "selection": "none: all seeds count",
    }
    return Record(data=xr.Dataset(arrays, coords), notes=notes)


def _spectra(ks: list[int], gons: list[KGon]) -> dict[str, Any]:
    """Slope and curvatures at every k-gon of all its features, NaN-padded to the largest."""
    slopes, curvatures = np.zeros(len(ks)), np.full((len(ks), 3 * ks[-1]), np.nan)
    with jax.enable_x64(True):
        for i, (k, gon) in enumerate(zip(ks, gons, strict=True)):
            at = critical_point(kgon_weights(k, k, jnp.asarray(gon.norm), jnp.asarray(gon.bias)))
            slopes[i] = at.slope
            curvatures[i, : 3 * k] = at.curvatures
    return {"slope": ("k", slopes), "curvature": (("k", "parameter"), curvatures)}


def _trained(spec: Spec, key: jax.Array, lab: Lab) -> dict[str, Any]:
    """The exact loss of every network over training, and its final solution."""
    members = new_members(
        key, spec.optim.learning_rate, OneHotHyper(jnp.full(spec.seeds, spec.spread))
    )
    problem = OneHotToy(spec.trained, 2, spec.batch_size)
    plan = Plan(problem, spec.optim, chunk=spec.every, mesh=None)

    def measure(weights: TiedWeights) -> dict[str, jax.Array]:
        return {"loss": one_hot_loss(weights)}

    found = measured_training(
        lab,
        "train",
        ensemble.init(plan, members),
        ensemble.advance(plan, members),
        steps=spec.optim.steps,
        every=spec.every,
        measure=each_member(measure),
    )
    W, b = found.models
    return {
        "loss": (("step", "seed"), found.curves["loss"]),
        "step": found.steps,
        "alive": ("seed", found.alive),
        "W": (("seed", "hidden", "feature"), np.asarray(W)),
        "b": (("seed", "feature"), np.asarray(b)),
    }
