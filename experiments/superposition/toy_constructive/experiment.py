"""Constructive arrangements: twelve features that depend on each other, and as many that do not.

Each feature by itself is the same in all arms; what differs is which ones are on together: none in
particular, neighbours on a circle, or the members of a cluster (arXiv 2603.09972).
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import at_index, derive, member_keys, uniforms
from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import copula_columns
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec, init_weights
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.feature_laws import circular_correlation, clustered_correlation
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import tied_columns, weighted_squared_error

KINDS = ("independent", "circular", "clustered")


@dataclass(frozen=True)
class Spec:
    """Twelve features in two dimensions, by default.

    Attributes:
        n_features: n.
        n_hidden: m.
        n_clusters: Clusters of the clustered arm.
        strength: Correlation of neighbours in the copula.
        density: p of every feature.
        decay: Weight decays of W and b.
        seeds: Independent initialisations and data streams, the same in all arms.
        batch_size: Fresh samples in each step.
        optim: Its ``weight_decay`` must be 0: the arms have their own.
        exam_size: Fresh samples on which losses are measured.
        permutations: Random exchanges of directions between features.
    """

    n_features: Annotated[int, "(n_hidden, inf)"] = 12
    n_hidden: Annotated[int, "[2, inf)"] = 2
    n_clusters: Annotated[int, "[2, inf)", "divides n_features"] = 3
    strength: Annotated[float, "[0, 1)"] = 0.9
    density: Annotated[float, "(0, 1)"] = 0.2
    decay: Annotated[Any, "[0, inf)", "increasing"] = (0.0, 0.1)
    seeds: Positive = 16
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(weight_decay=0.0))
    exam_size: Positive = 8192
    permutations: Positive = 8

    def __post_init__(self) -> None:
        if self.optim.weight_decay:
            raise ValueError(
                f"optim.weight_decay={self.optim.weight_decay} must be 0: decay has that of arms"
            )


class DependentHyper(NamedTuple):
    """Root of the copula's correlation matrix, p of every feature, and decay of one member."""

    root: Float[Array, "*member n_features n_features"]
    density: Float[Array, "*member n_features"]
    decay: Float[Array, "*member"]


class CopulaDraws(NamedTuple):
    """Random numbers of one step, which members of any dependence share."""

    normal: Float[Array, "n_features batch"]
    value: Float[Array, "n_features batch"]


@dataclass(frozen=True)
class DependentToy:
    """``relu(W^T W x + b)`` that gives back dependent features; sum loss.

    Source: arXiv 2603.09972, correlated features arranged constructively.
    Differs: dependence by a Gaussian copula, which leaves every feature by itself as it is.
    """

    model: ToySpec
    batch_size: int = 1024

    def init(self, key: Key[Array, ""], hyper: DependentHyper) -> TiedWeights:
        """Gaussian weights, zero biases."""
        return TiedWeights(*init_weights(self.model, key))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> CopulaDraws:
        """Normals that decide which features are on, and uniform values."""
        key, shape = at_index(key, step), (self.model.n_features, self.batch_size)
        return CopulaDraws(
            jax.random.normal(derive(key, "normal"), shape, float),
            uniforms(derive(key, "value"), shape),
        )

    def loss(
        self, params: TiedWeights, batch: CopulaDraws, hyper: DependentHyper
    ) -> Float[Array, ""]:
        """Squared error, summed over features."""
        x = copula_columns(*batch, hyper.root, hyper.density)
        output = tied_columns(params, x, Activation.relu)
        importance = jnp.ones(self.model.n_features)
        return weighted_squared_error(x, output, importance, Convention.sum, feature_axis=0)

    def decay(self, params: TiedWeights, hyper: DependentHyper) -> TiedWeights:
        """Decoupled decay of all parameters, as AdamW has it."""
        return jax.tree.map(lambda p: hyper.decay * p, params)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
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
        lab, "train", derive(key, "train"), problem, spec.optim, cells, seeds=spec.seeds
    )
    weights = jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), trained.models)
    losses = lab.stage("losses", _losses, spec, derive(key, "exam"), weights, cells)
    alive = trained.alive.reshape(shape)
    dims = ("seed", "kind", "decay")
    arrays: dict[str, Any] = {
        "loss": (dims, np.where(alive, losses[..., 0], np.nan)),
        "permuted_loss": (dims, np.where(alive, losses[..., 1:].mean(axis=-1), np.nan)),
        "alive": (dims, alive),
        "W": ((*dims, "hidden", "feature"), np.asarray(weights.W)),
        "b": ((*dims, "feature"), np.asarray(weights.b)),
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
    return xr.Dataset(arrays, coords, notes)


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
