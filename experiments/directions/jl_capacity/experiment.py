"""Numbers of nearly orthogonal directions: random, greedy, optimised, learned, and the bounds."""

from dataclasses import dataclass, field
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.projection.coherence import coherence, guaranteed_sparsity, recovery, unit_rows
from circuitax.projection.laws import random_capacity
from circuitax.projection.packings import (
    capacity_bound,
    greedy_counts,
    optimised_counts,
    random_counts,
)
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.directions.jl_capacity.feature_sets import learned_features, other_features

KINDS = ("random", "learned", "optimised")
Dims = Annotated[tuple[int, ...], "[2, inf)", "increasing"]
Two = Annotated[int, "[2, inf)"]
Ten = Annotated[int, "[10, inf)"]


@dataclass(frozen=True)
class Spec:
    """Sizes of the sweep over dimensions, of the models, and of decoding.

    Attributes:
        epsilon: Largest overlap allowed, in (0, 1).
        random_dims: Dimensions for random directions.
        greedy_dims: For greedy packings.
        optimised_dims: For optimised packings, at least five, increasing, each with a finite bound.
        n_trials: Random sequences in each dimension.
        n_seeds: Packings and models of each size.
        n_candidates: Directions that greedy packing tries.
        n_steps: Steps of the packing optimiser.
        widths: Hidden neurons m of the models, each with ``4 m`` features, increasing.
        density: Of the models' features.
        batch_size: Of the models.
        optim: How they are trained.
        decode_dim: m of the decoding test.
        decode_features: N of it.
        max_active: Largest k.
        n_decode: Trials for each k and dictionary.
        n_dictionaries: Independent sets of directions to decode with.
    """

    epsilon: Annotated[float, "(0, 1)"] = 0.3
    random_dims: Dims = (50, 80, 110, 140, 170, 200)
    greedy_dims: Dims = (8, 12, 14, 20, 32, 48)
    optimised_dims: Dims = (6, 7, 8, 10, 12, 14)
    n_trials: Ten = 40
    n_seeds: Two = 4
    n_candidates: Annotated[int, "[100, inf)"] = 10_000
    n_steps: Ten = 500
    widths: Dims = (4, 8, 12)
    density: Annotated[float, "(0, 1]"] = 0.05
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(learning_rate=5e-3, steps=1500))
    decode_dim: Two = 128
    decode_features: Two = 512
    max_active: Annotated[int, "[1, decode_features]"] = 12
    n_decode: Ten = 500
    n_dictionaries: Two = 16

    def __post_init__(self) -> None:
        if not np.isfinite(capacity_bound(self.optimised_dims[-1], self.epsilon)):
            raise ValueError(f"optimised_dims={self.optimised_dims} must be below 3/epsilon² - 2")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Capacity against dimension; coherence of learned features; decoding of sparse features."""
    eps = spec.epsilon
    at = {name: derive(key, name) for name in ("random", "greedy", "optimised", "decode")}
    random = lab.stage("random", random_counts, at["random"], spec.random_dims, eps, spec.n_trials)
    tried = spec.greedy_dims, eps, spec.n_seeds, spec.n_candidates
    greedy = lab.stage("greedy", greedy_counts, at["greedy"], *tried)
    moved = spec.optimised_dims, eps, spec.n_seeds, spec.n_steps
    optimised = lab.stage("optimised", optimised_counts, at["optimised"], *moved)
    decoded = lab.stage("decode", _decode, spec, at["decode"])
    table, represented = _features(spec, derive(key, "models"), lab)
    guaranteed = [guaranteed_sparsity(float(largest)) for largest in decoded["coherence"]]
    bound = [capacity_bound(d, eps) for d in spec.optimised_dims]
    return xr.Dataset(
        {
            "random": (("random_dim", "trial"), random),
            "random_law": ("random_dim", random_capacity(np.array(spec.random_dims), eps)),
            "greedy": (("greedy_dim", "seed"), greedy),
            "optimised": (("optimised_dim", "seed"), optimised),
            "bound": ("optimised_dim", bound),
            "coherence": (("kind", "measure", "width", "seed"), table),
            "n_represented": (("width", "seed"), represented),
            "decoded": (("dictionary", "n_active"), decoded["exact"] / spec.n_decode),
            "guaranteed": ("dictionary", guaranteed),
        },
        coords={
            "random_dim": list(spec.random_dims),
            "greedy_dim": list(spec.greedy_dims),
            "optimised_dim": list(spec.optimised_dims),
            "width": list(spec.widths),
            "kind": list(KINDS),
            "measure": ["absolute", "signed", "mean_square"],
            "n_active": np.arange(1, spec.max_active + 1),
        },
        attrs={
            "epsilon": eps,
            "decode_dim": spec.decode_dim,
            "decode_features": spec.decode_features,
        },
    )


def _features(spec: Spec, key: jax.Array, lab: Lab) -> tuple[np.ndarray, np.ndarray]:
    """Coherence [kind, measure, width, seed], and numbers of learned features [width, seed]."""
    tables, represented = [], []
    for m in spec.widths:
        at = derive(key, f"width {m}")
        learned, count = learned_features(_train(spec, m, derive(at, "train"), lab))
        keys = member_keys(derive(at, "sets"), spec.n_seeds)
        sizes = (m, max(spec.widths), 2 * spec.n_steps)
        others = lab.stage(f"sets-{m}", other_features, keys, *sizes)
        tables.append(np.array([others["random"], learned, others["optimised"]]))
        represented.append(count)
    return np.stack(tables, 2), np.stack(represented)


def _train(spec: Spec, m: int, key: jax.Array, lab: Lab) -> jax.Array:
    """W [seed, m, 4 m] of tied ReLU models with independent initialisation and data."""
    n, steps = 4 * m, spec.optim.steps
    every = chunk_size(steps, most=100)
    problem = ToyProblem(ToySpec(n, m), batch_size=spec.batch_size)
    plan = Plan(problem, spec.optim, every, mesh=None)
    hyper = ToyHyper(jnp.full((spec.n_seeds, n), spec.density), jnp.ones((spec.n_seeds, n)))
    members = new_members(key, spec.optim.learning_rate, hyper)
    state, train = init(plan, members), advance(plan, members)
    return measured_training(lab, f"train-{m}", state, train, steps=steps, every=every).models.W


def _decode(spec: Spec, key: jax.Array) -> dict[str, jax.Array]:
    """Trials decoded without an error, ``[dictionary, k]``, for sets of random directions."""
    k = jnp.arange(1, spec.max_active + 1)

    def one(key: jax.Array) -> dict[str, jax.Array]:
        normal = jax.random.normal(derive(key, "v"), (spec.decode_features, spec.decode_dim))
        v = unit_rows(normal)
        found = jax.lax.map(
            lambda args: recovery(args[0], v, n_active=args[1], n_trials=spec.n_decode),
            (member_keys(derive(key, "trials"), spec.max_active), k),
        )
        return {"exact": found.exact, "coherence": coherence(v).largest}

    return jax.lax.map(one, member_keys(key, spec.n_dictionaries))
