"""Training sets of T points: from T-gons of samples to a pentagon of features.

Toy models in two hidden dimensions are trained on finite sets of samples, of many sizes, with
several initialisations of which the lowest training loss counts (Henighan et al. 2023,
"Superposition, Memorization, and Double Descent").
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.config.ranges import Positive
from circuitax.kernel.activations import Activation
from circuitax.kernel.features import unit_columns
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec, init_weights
from circuitax.superposition.geometry.geometry import dimensionality
from circuitax.superposition.tasks.memorization import (
    reconstruction_loss,
    tgon_norm,
    tgon_weights,
)
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member
from circuitax.training.selection import best_of, take
from circuitax.training.toy import tied_columns

N_HIDDEN = 2
# Sizes of training sets in which all hidden vectors are kept.
MOST_KEPT = 16
THEORY_POINTS = (3, 5, 8, 16, 32)


@dataclass(frozen=True)
class Spec:
    """A sweep over the size of the training set.

    Attributes:
        n_features: n; the paper has 10,000.
        density: p of every feature; the paper has 0.001.
        points: T in groups, in increasing order; a group is one compilation, at the cost of its
            greatest T for all of its sizes.
        decay: Weight decays; the first is the paper's.
        datasets: Independent training sets; a smaller one is the beginning of a larger.
        restarts: Initialisations of each set, of which the lowest training loss counts.
        optim: Its ``weight_decay`` must be 0: members have their own.
        chunk: Steps between two checkpoints.
        exam_size: Fresh samples for the test loss of a set.
    """

    n_features: Annotated[int, "[5, inf)"] = 150
    density: Annotated[float, "(0, 1]"] = 0.03
    points: Annotated[Any, "[3, inf)"] = ((3, 5, 8), (20, 50))
    decay: Annotated[Any, "[0, inf)"] = (0.01,)
    datasets: Positive = 8
    restarts: Positive = 4
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(weight_decay=0.0))
    chunk: Annotated[int, "divides optim.steps"] = 100
    exam_size: Positive = 4096

    def __post_init__(self) -> None:
        if self.optim.weight_decay:
            raise ValueError(
                f"optim.weight_decay={self.optim.weight_decay} must be 0: decay has that of members"
            )
        if not self.sizes or sorted(set(self.sizes)) != self.sizes:
            raise ValueError(f"points={self.points} must increase")

    @property
    def sizes(self) -> list[int]:
        """All T, in order."""
        return [size for group in self.points for size in group]


class TrainingSet(NamedTuple):
    """The samples of one member; sets of several sizes share one compilation.

    Attributes:
        x: Samples in columns.
        n_points: T: the first T columns are the training set; the others are not seen.
        decay: Decoupled weight decay of W and b.
    """

    x: Float[Array, "*member n_features n_points"]
    n_points: Float[Array, "*member"]
    decay: Float[Array, "*member"]


@dataclass(frozen=True)
class MemorizingToy:
    """``relu(W^T W x + b)`` that gives back a fixed set of samples; sum loss, full batches."""

    model: ToySpec

    def init(self, key: Key[Array, ""], hyper: TrainingSet) -> TiedWeights:
        """Gaussian weights (Xavier), zero biases."""
        return TiedWeights(*init_weights(self.model, key))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> tuple[()]:
        """Nothing: the samples are in ``hyper``."""
        return ()

    def loss(self, params: TiedWeights, batch: tuple[()], hyper: TrainingSet) -> Float[Array, ""]:
        """Squared error of the training set, summed over features, the mean over its samples."""
        error = jnp.sum((hyper.x - tied_columns(params, hyper.x, Activation.relu)) ** 2, axis=0)
        seen = jnp.arange(error.shape[0]) < hyper.n_points
        return jnp.sum(jnp.where(seen, error, 0)) / hyper.n_points

    def decay(self, params: TiedWeights, hyper: TrainingSet) -> TiedWeights:
        """Decoupled decay of all parameters, as AdamW has it."""
        return jax.tree.map(lambda p: hyper.decay * p, params)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every size, decay, set and restart; measure the best restart of each."""
    n, largest = spec.n_features, spec.sizes[-1]
    model = ToySpec(n, N_HIDDEN)
    keys = member_keys(derive(key, "data"), spec.datasets)
    x = np.asarray(_samples(derive(keys, "train"), spec, largest))
    exam = _samples(derive(keys, "exam"), spec, spec.exam_size)
    found = [_group(spec, key, lab, model, x, exam, group) for group in spec.points]
    arrays: dict[str, Any] = {}
    for name in found[0]:
        axis = 1 if found[0][name].ndim > 1 else 0
        arrays[name] = np.concatenate([part[name] for part in found], axis=axis)
    dims = ("dataset", "points", "decay")
    named: dict[str, Any] = {
        "train_loss": ((*dims, "restart"), arrays["train_loss"]),
        "alive": ((*dims, "restart"), arrays["alive"]),
        "test_loss": (dims, arrays["test_loss"]),
        "W_norm": (dims, arrays["W_norm"]),
        "b_norm": (dims, arrays["b_norm"]),
        "sample_dimension": (dims, arrays["sample_dimension"]),
        "feature_dimension": ((*dims[:2], "feature"), arrays["feature_dimension"]),
        "W": (("dataset", "points", "hidden", "feature"), arrays["W"]),
        "hidden_vectors": (("dataset", "points", "hidden", "sample"), arrays["hidden_vectors"]),
        "least_norm": ("points", tgon_norm(spec.sizes)),
        "theory_loss": (("theory_points", "scale"), _theory()),
        "shown_vectors": (("points", "hidden", "shown"), arrays["shown_vectors"][0]),
    }
    coords = {
        "dataset": np.arange(spec.datasets),
        "points": spec.sizes,
        "decay": np.asarray(spec.decay, float),
        "theory_points": list(THEORY_POINTS),
        "scale": [1.0, 0.99],
    }
    notes = {
        "density": spec.density,
        "n_hidden": N_HIDDEN,
        "data": "own training set for each dataset; its first T samples for size T",
        "samples": "scaled to unit norm",
        "convention": "sum over features",
        "weight_decay": "decay of the member, for W and b",
        "init_std": model.weight_std(n, N_HIDDEN),
        "selection": f"lowest training loss of {spec.restarts} restarts, for each dataset",
        "W": "of the first decay",
        "feature_dimension": "of the first decay",
    }
    return xr.Dataset(named, coords, notes)


def _samples(keys: Key[Array, " dataset"], spec: Spec, size: int) -> Float[Array, "dataset n _"]:
    """Samples of unit norm of every dataset."""
    density = jnp.full(spec.n_features, spec.density)

    def one(key: Key[Array, ""]) -> Array:
        return unit_columns(jax.random.uniform(key, (spec.n_features, size), float), density)

    return jax.jit(jax.vmap(one))(keys)


def _group(
    spec: Spec,
    key: Key[Array, ""],
    lab: Lab,
    model: ToySpec,
    x: np.ndarray,
    exam: Float[Array, "dataset n exam"],
    group: list[int],
) -> dict[str, np.ndarray]:
    """Train all sizes of a group, and measure them: arrays ``[dataset, points, decay, ...]``."""
    cells = (spec.datasets, len(group), len(spec.decay))
    shape = (*cells, spec.restarts)
    total = int(np.prod(shape))
    at = np.unravel_index(np.arange(total), shape)
    sets = TrainingSet(
        jnp.asarray(x[at[0], :, : group[-1]]),
        jnp.asarray(np.asarray(group, np.float32)[at[1]]),
        jnp.asarray(np.asarray(spec.decay, np.float32)[at[2]]),
    )
    init_keys = member_keys(derive(key, "init"), spec.datasets * spec.restarts)
    init_keys = init_keys[at[0] * spec.restarts + at[3]]
    # Nothing is drawn in training: the data key is not used.
    members = Member(init_keys, init_keys, jnp.full(total, spec.optim.learning_rate), sets)
    problem = MemorizingToy(model)
    plan = Plan(problem, spec.optim, spec.chunk, mesh=None)
    trained = measured_training(
        lab,
        f"train-{group[0]}-{group[-1]}",
        ensemble.init(plan, members),
        ensemble.advance(plan, members),
        steps=spec.optim.steps,
        every=spec.chunk,
    )
    measured = _measure(problem, shape, trained.models, trained.state.alive, sets, exam)
    found = {name: np.asarray(value) for name, value in measured.items()}
    found = {
        name: value if name == "train_loss" else value.reshape(*cells, *value.shape[1:])
        for name, value in found.items()
    }
    vectors = found.pop("vectors")
    kept = np.full((*cells[:2], N_HIDDEN, MOST_KEPT), np.nan, np.float32)
    shown = np.full((1, len(group), N_HIDDEN, spec.sizes[-1]), np.nan, np.float32)
    for i, size in enumerate(group):
        if size <= MOST_KEPT:
            kept[:, i, :, :size] = vectors[:, i, 0, :, :size]
        shown[0, i, :, :size] = vectors[0, i, 0, :, :size]
    return found | {
        "alive": trained.alive.reshape(shape),
        "W": found["W"][:, :, 0],
        "feature_dimension": found["feature_dimension"][:, :, 0],
        "hidden_vectors": kept,
        "shown_vectors": shown,
    }


@partial(jax.jit, static_argnums=(0, 1))
def _measure(
    problem: MemorizingToy,
    shape: tuple[int, ...],
    models: TiedWeights,
    alive: Bool[Array, " member"],
    sets: TrainingSet,
    exam: Float[Array, "dataset n exam"],
) -> dict[str, Array]:
    """The training losses, and measurements of the lowest restart, cell after cell."""
    loss = jax.vmap(lambda weights, seen: problem.loss(weights, (), seen))(models, sets)
    loss = loss.reshape(shape)
    best = best_of(loss, alive.reshape(shape))
    chosen = take(jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), models), best.restart)
    n_cells = loss.size // shape[-1]
    chosen = jax.tree.map(lambda a: a.reshape(n_cells, *a.shape[3:]), chosen)
    seen = jax.tree.map(lambda a: a[:: shape[-1]], sets)
    dataset = jnp.arange(n_cells) // (n_cells // shape[0])

    def one(cell: tuple[TiedWeights, TrainingSet, Array]) -> dict[str, Array]:
        weights, training, number = cell
        fresh = exam[number]
        output = tied_columns(weights, fresh, Activation.relu)
        used = jnp.arange(training.x.shape[1])[None] < training.n_points
        vectors = jnp.where(used, weights.W @ training.x, 0)
        return {
            "test_loss": jnp.mean(jnp.sum((fresh - output) ** 2, axis=0)),
            "W": weights.W,
            "W_norm": jnp.linalg.norm(weights.W),
            "b_norm": jnp.linalg.norm(weights.b),
            "vectors": vectors,
            "sample_dimension": jnp.sum(dimensionality(vectors)) / training.n_points,
            "feature_dimension": dimensionality(weights.W),
        }

    return {"train_loss": loss} | jax.lax.map(one, (chosen, seen, dataset))


def _theory() -> np.ndarray:
    """The loss of T-gons of the least norm, and of 0.99 of it, on disjoint samples."""
    rows = []
    for size in THEORY_POINTS:
        values = np.random.default_rng(size).uniform(0.1, 1, (size, 4))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        x = np.zeros((4 * size, size))
        for t in range(size):
            x[4 * t : 4 * t + 4, t] = values[t]
        norms = (float(tgon_norm(size)), 0.99 * float(tgon_norm(size)))
        rows.append([reconstruction_loss(*tgon_weights(x, norm), x) for norm in norms])
    return np.array(rows)
