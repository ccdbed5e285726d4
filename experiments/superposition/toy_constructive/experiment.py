"""Constructive arrangements: twelve features that depend on each other, and as many that do not.

Each feature by itself is the same in all arms; what differs is which ones are on together: none in
particular, neighbours on a circle, or the members of a cluster (arXiv 2603.09972).
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.arms import crossed_training
from circuitax.kit.checks import (
    require_at_least,
    require_below,
    require_divides,
    require_equal,
    require_in,
    require_increasing,
)
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.records.record import Record
from circuitax.superposition.feature_laws import (
    circular_correlation,
    clustered_correlation,
    feature_covariance,
    linear_optimum,
)
from circuitax.training.optim import OptimSpec
from experiments.superposition.toy_constructive.problem import DependentHyper, DependentToy

KINDS = ("independent", "circular", "clustered")


@dataclass(frozen=True)
class Spec:
    """Twelve features in two dimensions, by default.

    Attributes:
        n_features: n, above ``n_hidden`` and a multiple of ``n_clusters``.
        n_hidden: m, at least 2.
        n_clusters: Clusters of the clustered arm, at least 2.
        strength: Correlation of neighbours in the copula, in [0, 1).
        density: p of every feature, in (0, 1).
        decay: Weight decays of W and b, 0 or more, increasing, at least two.
        seeds: Independent initialisations and data streams, at least 1; the same in all arms.
        batch_size: Fresh samples in each step, at least 1.
        optim: Its ``weight_decay`` must be 0: the arms have their own.
        chunk: Steps between two checkpoints, a divisor of ``optim.steps``.
        exam_size: Fresh samples on which losses are measured, at least 1.
        permutations: Random exchanges of directions between features, at least 1.
    """

    n_features: int = 12
    n_hidden: int = 2
    n_clusters: int = 3
    strength: float = 0.9
    density: float = 0.2
    decay: Any = (0.0, 0.1)
    seeds: int = 16
    batch_size: int = 256
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(weight_decay=0.0))
    chunk: int = 100
    exam_size: int = 8192
    permutations: int = 8

    def __post_init__(self) -> None:
        require_at_least(self, 2, "n_hidden", "n_clusters")
        require_below(self, "n_features", "n_hidden")
        require_divides(self, "n_clusters", "n_features")
        require_in(self, "[0, 1)", "strength")
        require_in(self, "(0, 1)", "density")
        require_at_least(self, 0, "decay")
        require_increasing(self, "decay", length=2)
        require_at_least(self, 1, "seeds", "batch_size", "chunk", "exam_size", "permutations")
        require_divides(self, "chunk", "optim.steps")
        require_equal(self, 0, "optim.weight_decay", why="decay has that of arms")
        require_arrays(
            self,
            "6 seeds decay n_features n_hidden",
            "2 seeds decay batch_size n_features",
            "n_features n_features",
            "exam_size n_features",
            "permutations n_features",
        )


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every kind of dependence at every decay; measure losses, also of other arrangements."""
    n, n_decays = spec.n_features, len(spec.decay)
    shape = (spec.seeds, len(KINDS), n_decays)
    correlation = np.stack(
        [
            np.eye(n),
            circular_correlation(n, spec.strength),
            clustered_correlation(n, spec.n_clusters, spec.strength),
        ]
    )
    root = jnp.asarray(np.linalg.cholesky(correlation), float)
    cells = DependentHyper(
        jnp.repeat(root, n_decays, axis=0),
        jnp.full((len(KINDS) * n_decays, n), spec.density),
        jnp.tile(jnp.asarray(spec.decay, float), len(KINDS)),
    )
    problem = DependentToy(ToySpec(n, spec.n_hidden), spec.batch_size)
    trained = crossed_training(
        lab,
        "train",
        derive(key, "train"),
        problem,
        spec.optim,
        cells,
        seeds=spec.seeds,
        chunk=spec.chunk,
    )
    weights = jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), trained.models)
    losses = lab.stage("losses", _losses, spec, derive(key, "exam"), weights, cells)
    alive = trained.alive.reshape(shape)
    linear = [
        linear_optimum(feature_covariance(R, spec.density), spec.n_hidden) for R in correlation
    ]
    dims = ("seed", "kind", "decay")
    arrays: dict[str, Any] = {
        "loss": (dims, np.where(alive, losses[..., 0], np.nan)),
        "permuted_loss": (dims, np.where(alive, losses[..., 1:].mean(axis=-1), np.nan)),
        "alive": (dims, alive),
        "W": ((*dims, "hidden", "feature"), np.asarray(weights.W)),
        "b": ((*dims, "feature"), np.asarray(weights.b)),
        "linear_loss": ("kind", linear),
        "correlation": (("kind", "feature", "other"), correlation),
    }
    coords = {
        "seed": np.arange(spec.seeds),
        "kind": list(KINDS),
        "decay": np.asarray(spec.decay, float),
    }
    notes = {
        "n_clusters": spec.n_clusters,
        "density": spec.density,
        "members": trained.divergence,
        "data": "one stream a seed, shared by all arms; seeds are independent",
        "loss": f"on {spec.exam_size} fresh samples, the same for all arms of a seed",
        "permuted_loss": f"of {spec.permutations} random exchanges of directions and biases",
        "convention": "sum over features",
        "weight_decay": "decay of the arm, for W and b",
        "init_std": ToySpec(n, spec.n_hidden).weight_std(n, spec.n_hidden),
        "selection": "none: all seeds are shown and count",
    }
    return Record(data=xr.Dataset(arrays, coords), notes=notes)


def _losses(
    spec: Spec, key: Key[Array, ""], weights: TiedWeights, cells: DependentHyper
) -> np.ndarray:
    """Losses of trained weights, then of exchanged ones, ``[seed, kind, decay, order]``."""
    exam = DependentToy(ToySpec(spec.n_features, spec.n_hidden), spec.exam_size)
    shape = (len(KINDS), len(spec.decay))

    @jax.jit
    def of_seed(key: Key[Array, ""], weights: TiedWeights) -> Float[Array, "kind decay _"]:
        batch = exam.batch(derive(key, "samples"), jnp.zeros((), int))
        orders = jax.vmap(lambda k: jax.random.permutation(k, spec.n_features))(
            member_keys(derive(key, "orders"), spec.permutations)
        )
        orders = jnp.concatenate([jnp.arange(spec.n_features)[None], orders])

        def one(cell: tuple[TiedWeights, DependentHyper]) -> Float[Array, " order"]:
            (W, b), hyper = cell
            return jax.lax.map(
                lambda order: exam.loss(TiedWeights(W[:, order], b[order]), batch, hyper), orders
            )

        flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), weights)
        return jax.lax.map(one, (flat, cells)).reshape(*shape, -1)

    keys = member_keys(key, spec.seeds)
    rows = [of_seed(keys[i], jax.tree.map(lambda a, i=i: a[i], weights)) for i in range(spec.seeds)]
    return np.stack([np.asarray(row) for row in rows])
