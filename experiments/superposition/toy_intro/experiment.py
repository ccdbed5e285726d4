"""Five features in two dimensions: trained networks beside the exact optimum, over sparsity.

This is the introduction of "Toy Models of Superposition" with the training protocol of its official
notebook: the denser the features, the fewer of them a network keeps.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import NotNegative, Positive
from circuitax.data.synthetic import SparseTask
from circuitax.kernel.keys import derive
from circuitax.kernel.mlp import Activation
from circuitax.kernel.weights import DenseWeights, TiedWeights
from circuitax.kit.members import crossed_training, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToyKind, ToySpec
from circuitax.superposition.expected_loss import Convention, exact_losses
from circuitax.superposition.optimum import branch_losses, find_optimum
from circuitax.training.ensemble import RULE
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import fresh_losses
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.shared.cells import networks

# Dimensions of what is known of each cell, and of weights.
CELL = ("importance_base", "sparsity")
WEIGHTS = ("hidden", "feature")


@dataclass(frozen=True)
class Spec:
    """The official protocol, swept.

    Attributes:
        model: n = 5, m = 2, tied, ReLU output in the papers.
        task: Sparsities and importances, each a vmapped axis.
        optim: Of the official notebook: AdamW, rate 1e-3, decay 0.01, 10,000 steps.
        convention: Mean over features in the notebook, sum in the paper.
        seeds: Independent initialisations and data streams, the same in every cell, so that cells
            are compared in pairs.
        chunk: Steps between two checkpoints of the progress.
        restarts: Random starts of the exact optimum in each cell; 0 leaves the optimum out, which
            is most of the time of a small run with many features.
        crossover_points: Densities at which digons and pentagon are followed.
    """

    model: ToySpec = field(default_factory=ToySpec)
    task: SparseTask = field(default_factory=SparseTask)
    optim: OptimSpec = field(default_factory=OptimSpec)
    convention: Convention = Convention.mean
    seeds: Positive = 10
    chunk: Annotated[int, "divides optim.steps"] = 500
    restarts: NotNegative = 24
    crossover_points: Annotated[int, "[2, inf)"] = 21


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every (seed, importance, sparsity) at once; then find the optimum of each cell."""
    n, m = spec.model.n_features, spec.model.n_hidden
    cells = (len(spec.task.importance_base), len(spec.task.sparsity))
    hyper = _cells(spec)
    problem = ToyProblem(spec.model, spec.task.batch_size, spec.convention)
    trained = crossed_training(
        lab, "train", key, problem, spec.optim, hyper, seeds=spec.seeds, chunk=spec.chunk
    )

    arrays: dict[str, Any] = {}
    coords: dict[str, Any] = {
        "seed": np.arange(spec.seeds),
        "importance_base": np.asarray(spec.task.importance_base),
        "sparsity": np.asarray(spec.task.sparsity),
        "feature": np.arange(n),
        "hidden": np.arange(m),
    }
    members = in_every_seed(hyper, spec.seeds)
    if spec.model.kind is ToyKind.tied and spec.model.output is Activation.relu:
        loss = lab.stage("exact", exact_losses, trained.models, *members)
        if spec.restarts > 0:
            optimum = lab.stage("optimum", _optimum, derive(key, "optimum"), spec, hyper)
            for name, value in optimum.items():
                shape = value.shape[1:]  # of a loss, of biases, or of weights
                dims = CELL + WEIGHTS[len(WEIGHTS) - len(shape) :]
                arrays[name] = (dims, value.reshape(cells + shape))
        if (n, m) == (5, 2):
            coords["crossover_density"] = np.linspace(0.14, 0.26, spec.crossover_points)
            branches = lab.stage("crossover", _branches, spec, coords["crossover_density"])
            for name, value in branches.items():
                arrays[name] = (("importance_base", "crossover_density"), value)
    else:
        key = derive(key, "evaluation")
        fresh = fresh_losses(problem, trained.models, members, key, n_batches=50)
        per_feature = n if spec.convention is Convention.mean else 1
        loss = per_feature * np.asarray(fresh).mean(axis=0)

    axes = dict(zip(("seed", *CELL), (spec.seeds, *cells), strict=True))
    train_loss = trained.training_loss.reshape(-1, *axes.values())
    arrays |= networks(_encoder(trained.models), trained.alive, loss, **axes)
    arrays |= {
        "train_loss": (("chunk", *axes), train_loss),
        "density": ("sparsity", 1 - coords["sparsity"]),
    }
    notes = {
        "loss": "sum over features of the expected error, whatever convention was trained",
        "selection": RULE,
        "ragged": ["hidden", "feature"],
        "members": trained.divergence,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "convention": spec.convention.value,
        "weight_decay": spec.optim.weight_decay,
        "init_std": spec.model.weight_std(n, m),
    }
    return xr.Dataset(arrays, coords, notes)


def _cells(spec: Spec) -> ToyHyper:
    """Density and importance of every feature in every cell, ``[cell, n]``, sparsity fastest."""
    n = spec.model.n_features
    density = np.asarray(spec.task.density)[None, :, None]
    importance = np.asarray(spec.task.importance(n))[:, None, :]
    cells = np.broadcast_arrays(density, importance)
    return ToyHyper(*(jax.device_put(a.reshape(-1, n)) for a in cells))


def _encoder(params: TiedWeights | DenseWeights) -> tuple[np.ndarray, np.ndarray]:
    """First-layer directions, features in columns, and output biases."""
    if isinstance(params, TiedWeights):
        return np.asarray(params.W), np.asarray(params.b)
    return np.asarray(params.layers[0].W).swapaxes(-1, -2), np.asarray(params.layers[-1].b)


def _optimum(key: jax.Array, spec: Spec, cells: ToyHyper) -> dict[str, Any]:
    """The exact optimum of every cell."""
    with jax.enable_x64(True):
        density, importance = (jax.device_put(np.asarray(a, np.float64)) for a in cells)
        m, restarts = spec.model.n_hidden, spec.restarts
        found = find_optimum(
            key, density, importance, n_hidden=m, n_restarts=restarts, thorough=False
        )
        return {
            "optimum_loss": np.asarray(found.loss),
            "optimum_W": np.asarray(found.weights.W),
            "optimum_b": np.asarray(found.weights.b),
        }


def _branches(spec: Spec, density: np.ndarray) -> dict[str, Any]:
    """Lowest loss of two digons and of a pentagon, for every importance and density."""
    with jax.enable_x64(True):
        branches = [
            branch_losses(jnp.asarray(density), base ** jnp.arange(5.0))
            for base in spec.task.importance_base
        ]
        return {
            "digon_loss": np.stack([np.asarray(b.digons) for b in branches]),
            "pentagon_loss": np.stack([np.asarray(b.pentagon) for b in branches]),
        }
