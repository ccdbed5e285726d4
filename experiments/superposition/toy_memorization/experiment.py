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
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import unit_columns
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.kit.members import padded
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec, init_weights
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, as_cells, best_of, take
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member
from circuitax.training.toy import tied_columns

N_HIDDEN = 2
# Training points whose hidden vectors are kept.
MOST_KEPT = 16


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
        exam_size: Fresh samples for the test loss of a set.
    """

    n_features: Annotated[int, "[5, inf)"] = 150
    density: Annotated[float, "(0, 1]"] = 0.03
    points: Annotated[Any, "[3, inf)"] = ((3, 5, 8), (20, 50))
    decay: Annotated[Any, "[0, inf)"] = (0.01,)
    datasets: Positive = 8
    restarts: Positive = 4
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(weight_decay=0.0))
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
    """Samples, of which the first T columns are seen, T, and the weight decay of one member."""

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
    keys = member_keys(derive(key, "data"), spec.datasets)
    x = np.asarray(_samples(derive(keys, "train"), spec, spec.sizes[-1]))
    exam = _samples(derive(keys, "exam"), spec, spec.exam_size)
    found = [_group(spec, key, lab, x, exam, group) for group in spec.points]
    dims = ("dataset", "points", "decay")
    axes = {
        "train_loss": (*dims, "restart"),
        "W": (*dims[:2], "hidden", "feature"),
        "hidden_vectors": (*dims[:2], "hidden", "sample"),
    }
    arrays: dict[str, Any] = {
        name: (axes.get(name, dims), np.concatenate([part[name] for part in found], axis=1))
        for name in found[0]
    }
    seen = np.arange(spec.sizes[-1]) < np.array(spec.sizes)[:, None, None]
    shown = np.where(seen, arrays["W"][1][0] @ x[0], np.nan)
    arrays["shown_vectors"] = (("points", "hidden", "shown"), shown)
    coords = {
        "dataset": np.arange(spec.datasets),
        "points": spec.sizes,
        "decay": np.asarray(spec.decay, float),
    }
    return xr.Dataset(arrays, coords, {"density": spec.density})


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
    problem = MemorizingToy(ToySpec(spec.n_features, N_HIDDEN))
    steps, every = spec.optim.steps, chunk_size(spec.optim.steps, most=100)
    plan = Plan(problem, spec.optim, every, mesh=None)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    name = f"train-{group[0]}-{group[-1]}"
    trained = measured_training(lab, name, state, advance, steps=steps, every=every)
    measured = _measure(
        problem, total // spec.restarts, trained.models, trained.state.alive, sets, exam
    )
    found = {k: np.asarray(v).reshape(*cells, *v.shape[1:]) for k, v in measured.items()}
    vectors = padded(found.pop("vectors")[:, :, 0, :, :MOST_KEPT], MOST_KEPT)
    return found | {"W": found["W"][:, :, 0], "hidden_vectors": vectors}


@partial(jax.jit, static_argnums=(0, 1))
def _measure(
    problem: MemorizingToy,
    n_cells: int,
    models: TiedWeights,
    alive: Bool[Array, " member"],
    sets: TrainingSet,
    exam: Float[Array, "dataset n exam"],
) -> dict[str, Array]:
    """The training losses, and measurements of the lowest restart, cell after cell."""
    loss = jax.vmap(lambda weights, seen: problem.loss(weights, (), seen))(models, sets)
    losses, finite = as_cells((loss, alive), n_cells)
    chosen = take(as_cells(models, n_cells), best_of(losses, finite).restart)
    seen = jax.tree.map(lambda a: a[:, 0], as_cells(sets, n_cells))
    dataset = jnp.arange(n_cells) // (n_cells // len(exam))

    def one(cell: tuple[TiedWeights, TrainingSet, Array]) -> dict[str, Array]:
        weights, training, number = cell
        fresh = exam[number]
        output = tied_columns(weights, fresh, Activation.relu)
        used = jnp.arange(training.x.shape[1])[None] < training.n_points
        return {
            "test_loss": jnp.mean(jnp.sum((fresh - output) ** 2, axis=0)),
            "W": weights.W,
            "W_norm": jnp.linalg.norm(weights.W),
            "b_norm": jnp.linalg.norm(weights.b),
            "vectors": jnp.where(used, weights.W @ training.x, jnp.nan),
        }

    return {"train_loss": losses} | jax.lax.map(one, (chosen, seen, dataset))
