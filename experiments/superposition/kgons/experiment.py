"""One-hot data: the exact potentials of regular k-gons, and whether training stays at them.

With one feature on at a time, every regular polygon of k features, the others left at zero, is a
critical point of the loss. Its loss L, the potential, follows from the polygon's best norm and bias
(Chen et al. 2023, arXiv 2310.06301). The Hessian at these points says which of them are minima, and
networks trained by stochastic gradient descent, on which losses they rest.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from circuitax.superposition.tasks.kgons import (
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


class OneHotHyper(NamedTuple):
    """Standard deviation of W at the start, which may differ between members of an ensemble."""

    scale: Float[Array, "*member"]


class OneHotBatch(NamedTuple):
    """Index of the active feature in each sample, and its value in [0, 1)."""

    feature: Int[Array, " batch"]
    value: Float[Array, " batch"]


@dataclass(frozen=True)
class OneHotToy:
    """``relu(W^T W x + b)`` that gives back one feature, of uniform value; sum loss.

    Its expectation is `kgons.one_hot_loss`.

    Source: Chen et al. 2023 (arXiv 2310.06301), the toy model of superposition.
    Differs: the paper draws a fixed set of samples once; here all are fresh.
    """

    n_features: int
    n_hidden: int = 2
    batch_size: int = 100

    def init(self, key: Key[Array, ""], hyper: OneHotHyper) -> TiedWeights:
        """``W ~ N(0, scale^2)``, ``b = 0``."""
        W = jax.random.normal(derive(key, "W"), (self.n_hidden, self.n_features), float)
        return TiedWeights(hyper.scale * W, jnp.zeros(self.n_features, float))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> OneHotBatch:
        """One feature and one value for each sample."""
        of_step, shape = at_index(key, step), (self.batch_size,)
        return OneHotBatch(
            jax.random.randint(derive(of_step, "feature"), shape, 0, self.n_features),
            jax.random.uniform(derive(of_step, "value"), shape, float),
        )

    def loss(self, params: TiedWeights, batch: OneHotBatch, hyper: OneHotHyper) -> Array:
        """Squared error, summed over features."""
        x = jax.nn.one_hot(batch.feature, self.n_features, dtype=batch.value.dtype)
        x = x * batch.value[:, None]
        output = jax.nn.relu(x @ params.W.T @ params.W + params.b[None, :])
        return jnp.mean(jnp.sum((x - output) ** 2, axis=1))


@dataclass(frozen=True)
class Spec:
    """The polygons, their numbers of features, and the trained networks.

    Attributes:
        max_k: Greatest number of vertices.
        max_features: Greatest number of features c.
        trained: Features c of the trained networks.
        seeds: Networks, each with its own start and data.
        spread: Standard deviation of W at the start.
        batch_size: Fresh samples of a step.
        optim: Of the networks.
        every: Steps between two measurements of the exact loss.
    """

    max_k: Annotated[int, "[6, 12]"] = 8
    max_features: Annotated[int, "[max_k, inf)"] = 12
    trained: Annotated[int, "[4, max_k]"] = 6
    seeds: Positive = 32
    spread: PositiveNumber = 0.1
    batch_size: Positive = 100
    optim: OptimSpec = field(default_factory=OptimSpec)
    every: Annotated[int, "divides optim.steps"] = 100


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
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
    return xr.Dataset(arrays, coords, notes)


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
