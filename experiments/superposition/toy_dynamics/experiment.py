"""Learning dynamics: features change their dimensionality, and an octahedron forms in regimes.

Two trainings of "Toy Models of Superposition", superposition and learning dynamics: equal features
that end as digons, and two sets of three correlated features in three dimensions.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training, each_member
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.correlated_sets import SetPatterns, set_loss, set_patterns
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import dimensionality
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import Features, ToyHyper, ToyProblem

N_SETS, SET_SIZE, N_HIDDEN = 2, 3, 3


@dataclass(frozen=True)
class Spec:
    """Sizes and densities of both trainings; the paper prints n = 6 and m = 3 of the second only.

    Attributes:
        n_features: n of the equal features.
        n_hidden: m of the equal features.
        density: p of the equal features; at 1/3 digons are the best filling.
        set_density: P(set is on) for the two sets.
        set_std: Initial standard deviation of W for the two sets; a small one separates the
            regimes.
        seeds: Independent initialisations and data streams of each training.
        batch_size: Fresh samples a step.
        optim: Of the equal features; the paper does not state it.
        set_steps: Steps for the two sets, at the same rate.
        every: Steps between two measurements of the equal features.
        set_every: The same for the two sets.
        exam_size: Fixed samples on which the equal features' loss is measured.
        log2_points: Logarithm of the number of quadrature points of the sets.
    """

    n_features: Annotated[int, "[2, inf)"] = 20
    n_hidden: Positive = 6
    density: Annotated[float, "(0, 1]"] = 1 / 3
    set_density: Annotated[float, "(0, 1]"] = 0.05
    set_std: PositiveNumber = 0.05
    seeds: Positive = 16
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    set_steps: Positive = 6000
    every: Annotated[int, "divides optim.steps"] = 100
    set_every: Annotated[int, "divides set_steps"] = 60
    exam_size: Positive = 4096
    log2_points: Annotated[int, "[1, 16]"] = 8


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train both, measuring all seeds every few steps."""
    equal, sets = _equal(spec, derive(key, "equal"), lab), _sets(spec, derive(key, "sets"), lab)
    followed = ("step", "seed")
    arrays: dict[str, Any] = {
        "dimensionality": ((*followed, "feature"), equal.curves["dimensionality"]),
        "loss": (followed, equal.curves["loss"]),
        "alive": ("seed", equal.alive),
        "set_W": (("set_step", "seed", "hidden", "set_feature"), sets.curves["W"]),
        "set_loss": (("set_step", "seed"), sets.curves["loss"]),
        "set_alive": ("seed", sets.alive),
    }
    coords = {"step": equal.steps, "set_step": sets.steps, "seed": np.arange(spec.seeds)}
    notes = {
        "n_hidden": spec.n_hidden,
        "density": spec.density,
        "loss": "equal features: on a fixed exam; sets: exact patterns, quasi-Monte Carlo values",
        "members": {"equal": equal.divergence, "sets": sets.divergence},
        "selection": "none: all seeds are shown and count",
        "data": "own stream for each seed",
        "weight_decay": spec.optim.weight_decay,
    }
    return xr.Dataset(arrays, coords, notes)


def _equal(spec: Spec, key: Key[Array, ""], lab: Lab) -> Trained:
    """Equal features: D_i of every feature, and the loss on a fixed exam."""
    n = spec.n_features
    hyper = ToyHyper(jnp.full((1, n), spec.density), jnp.ones((1, n)))
    exam = jax.random.uniform(derive(key, "exam"), (n, spec.exam_size), float)
    problem = ToyProblem(ToySpec(n, spec.n_hidden), spec.batch_size, Convention.sum)
    one = jax.tree.map(lambda leaf: leaf[0], hyper)

    def measure(weights: TiedWeights, exam: Float[Array, "n_features _"]) -> dict[str, Array]:
        loss = problem.loss(weights, exam, one)
        return {"dimensionality": dimensionality(weights.W), "loss": loss}

    return crossed_training(
        lab,
        "train-equal",
        derive(key, "train"),
        problem,
        spec.optim,
        hyper,
        seeds=spec.seeds,
        chunk=spec.every,
        measure=each_member(measure, exam),
    )


def _sets(spec: Spec, key: Key[Array, ""], lab: Lab) -> Trained:
    """Two sets of three correlated features: all weights, and the exact loss."""
    n = N_SETS * SET_SIZE
    hyper = ToyHyper(jnp.full((1, N_SETS), spec.set_density), jnp.ones((1, n)))
    patterns = set_patterns(N_SETS, SET_SIZE, log2_points=spec.log2_points)
    patterns = jax.tree.map(lambda leaf: leaf.astype(float), patterns)
    problem = ToyProblem(
        ToySpec(n, N_HIDDEN, init_std=spec.set_std),
        spec.batch_size,
        Convention.sum,
        features=Features.correlated,
        set_size=SET_SIZE,
    )

    def measure(weights: TiedWeights, patterns: SetPatterns) -> dict[str, Array]:
        return {"W": weights.W, "loss": set_loss(weights, jnp.array(spec.set_density), patterns)}

    return crossed_training(
        lab,
        "train-sets",
        derive(key, "train"),
        problem,
        replace(spec.optim, steps=spec.set_steps),
        hyper,
        seeds=spec.seeds,
        chunk=spec.set_every,
        measure=each_member(measure, patterns),
    )
