"""A hidden ReLU gives features a basis to align with: neurons of one feature, and of several.

``h = ReLU(W x)``, ``x' = ReLU(W^T h + b)``. Many restarts are trained at every density, and the
one with the lowest loss is looked at (toy-models paper, superposition in a privileged basis).
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kit.members import crossed_training, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToyKind, ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import NeuronClass, neuron_classes, neurons_per_feature, norms
from circuitax.training.ensemble import RULE, best_of
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import fresh_losses
from circuitax.training.toy import ToyProblem
from experiments.superposition.shared.cells import by_cell, cells_over

REPRESENTED = 0.5  # a feature with a norm above it counts as represented


@dataclass(frozen=True)
class Spec:
    """Restarts at every density.

    Attributes:
        n_features: 10 in the paper.
        n_hidden: 5 in the paper.
        density: p of every cell.
        importance_base: ``I = base^i``; 0.75 in the paper.
        restarts: Of every density; 1,000 in the paper.
        batch_size: Fresh samples a step.
        exam_batches: Batches that the loss of a trained network is measured on, the same for all.
        optim: The paper does not state it.
    """

    n_features: Annotated[int, "[2, inf)"] = 10
    n_hidden: Positive = 5
    density: Annotated[tuple[float, ...], "(0, 1]"] = (0.75, 0.35, 0.15, 0.12, 0.06, 0.03)
    importance_base: Annotated[float, "(0, 1]"] = 0.75
    restarts: Annotated[int, "[2, inf)"] = 96
    batch_size: Positive = 128
    exam_batches: Positive = 512
    optim: OptimSpec = field(default_factory=OptimSpec)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every restart at every density at once, and classify the neurons of each."""
    n, m = spec.n_features, spec.n_hidden
    density = np.asarray(spec.density)
    cells = cells_over(density, spec.importance_base ** jnp.arange(n))
    model = ToySpec(n, m, ToyKind.privileged)
    problem = ToyProblem(model, spec.batch_size, Convention.sum)
    trained = crossed_training(lab, "train", key, problem, spec.optim, cells, seeds=spec.restarts)
    exam = lab.stage(
        "exam",
        fresh_losses,
        problem,
        trained.models,
        in_every_seed(cells, spec.restarts),
        derive(key, "evaluation"),
        spec.exam_batches,
    )
    of_cells = partial(by_cell, seeds=spec.restarts)
    alive = of_cells(trained.alive)
    loss = np.where(alive, of_cells(exam.mean(axis=0)), np.nan)
    best = best_of(jnp.asarray(loss), jnp.asarray(alive))
    W, b = map(of_cells, trained.models)
    kinds = of_cells(jax.vmap(neuron_classes)(trained.models.W))
    represented = of_cells(jax.vmap(norms)(trained.models.W)) > REPRESENTED
    neurons = of_cells(jax.vmap(neurons_per_feature)(trained.models.W))
    chosen = np.arange(len(density)), np.maximum(np.asarray(best.restart), 0)
    arrays: dict[str, Any] = {
        "loss": (("density", "restart"), loss),
        "alive": (("density", "restart"), alive),
        "monosemantic": (("density", "restart"), (kinds == NeuronClass.monosemantic).sum(-1)),
        "polysemantic": (("density", "restart"), (kinds == NeuronClass.polysemantic).sum(-1)),
        "represented": (("density", "restart"), represented.sum(-1)),
        "paired": (("density", "restart"), (neurons == 2).mean(-1)),
        "best": ("density", np.asarray(best.restart)),
        "best_W": (("density", "neuron", "feature"), W[chosen]),
        "best_b": (("density", "feature"), b[chosen]),
        "best_monosemantic": (("density", "neuron"), kinds[chosen] == NeuronClass.monosemantic),
        "best_polysemantic": (("density", "neuron"), kinds[chosen] == NeuronClass.polysemantic),
        "best_represented": (("density", "feature"), represented[chosen]),
    }
    coords = {
        "density": density,
        "restart": np.arange(spec.restarts),
        "neuron": np.arange(m),
        "feature": np.arange(n),
    }
    notes = {
        "loss": "sum over features, mean over fresh samples common to all networks; no exact "
        "engine covers a hidden ReLU",
        "selection": RULE,
        "members": trained.divergence,
        "data": "one stream a restart, shared by all densities; restarts are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_std": model.weight_std(n, m),
    }
    return xr.Dataset(arrays, coords, notes)
