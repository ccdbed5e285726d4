"""Superposition demonstrated: linear and ReLU models over sparsity, at three sizes.

This is "Demonstrating Superposition" of the toy-models paper: n = 20 features in m = 5 dimensions
with importance 0.7^i, its enlarged copy 80 / 20 with 0.9^i, and the 100 / 20 model of the official
notebook, whose importance falls from 1 to 1/100.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kernel.mlp import Activation
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training, each_member, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention, exact_losses, linear_loss
from circuitax.superposition.features import interference_sq
from circuitax.training.ensemble import RULE
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.shared.cells import cells_over, networks


@dataclass(frozen=True)
class Spec:
    """Three models over sparsity.

    Attributes:
        small: n and m of the paper's model.
        scaled: n and m of its enlarged copy.
        notebook: n and m of the official notebook's model.
        density: Densities of the paper's figures.
        notebook_density: Densities of the 100 / 20 model.
        seeds: Independent initialisations and data streams, the same in every cell.
        batch_size: Fresh samples a step of the small model; at density 0.001 a feature is on in one
            sample of a thousand.
        large_batch_size: Fresh samples a step of the two larger models.
        optim: Of the official notebook except rate and schedule.
    """

    small: tuple[Positive, Positive] = (20, 5)
    scaled: tuple[Positive, Positive] = (80, 20)
    notebook: tuple[Positive, Positive] = (100, 20)
    density: Annotated[tuple[float, ...], "(0, 1]"] = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    # Four of the notebook's twenty densities, 20^-linspace(0, 1, 20).
    notebook_density: Annotated[tuple[float, ...], "(0, 1]"] = (1.0, 0.5322, 0.2066, 0.05855)
    seeds: Positive = 8
    batch_size: Positive = 512
    large_batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train all models, and evaluate the small ones on the exact loss."""
    cells = cells_over(spec.density, 0.7 ** np.arange(spec.small[0]))
    arrays: dict[str, Any] = {}
    members: dict[str, Any] = {}

    def train(name: str, cells: ToyHyper, model: ToySpec, batch: int) -> Trained:
        """Every seed at every density, in one ensemble."""
        given = derive(key, name), ToyProblem(model, batch, Convention.sum), spec.optim, cells
        trained = crossed_training(lab, f"train-{name}", *given, seeds=spec.seeds)
        members[name] = trained.divergence
        return trained

    for name, output in (("relu", Activation.relu), ("linear", Activation.linear)):
        trained = train(name, cells, ToySpec(*spec.small, output=output), spec.batch_size)
        everywhere = in_every_seed(cells, spec.seeds)
        if output is Activation.relu:
            loss = lab.stage(f"loss-{name}", exact_losses, trained.models, *everywhere)
        else:
            loss = np.asarray(jax.vmap(linear_loss)(trained.models, *everywhere))
        axes = {"seed": spec.seeds, "density": len(spec.density)}
        found = networks(trained.models, trained.alive, loss, **axes)
        overlap = np.asarray(each_member(interference_sq)(trained.models.W))
        found["interference"] = ((*axes, "feature"), overlap.reshape(*axes.values(), -1))
        arrays |= {f"{name}_{of}": values for of, values in found.items()}
    falls = {
        ("scaled", "density"): 0.9 ** np.arange(spec.scaled[0]),
        ("notebook", "notebook_density"): 100 ** -np.linspace(0, 1, spec.notebook[0]),
    }
    for (name, axis), importance in falls.items():
        size, larger = getattr(spec, name), cells_over(getattr(spec, axis), importance)
        trained = train(name, larger, ToySpec(*size), spec.large_batch_size)
        norm = np.linalg.norm(np.asarray(trained.models.W), axis=1).reshape(spec.seeds, -1, size[0])
        arrays[f"{name}_norm"] = (("seed", axis, f"{name}_feature"), norm)
        arrays[f"{name}_alive"] = (("seed", axis), trained.alive.reshape(spec.seeds, -1))
    coords = {
        "density": np.asarray(spec.density),
        "notebook_density": np.asarray(spec.notebook_density),
        "seed": np.arange(spec.seeds),
        "scaled_hidden": np.arange(spec.scaled[1]),
        "notebook_hidden": np.arange(spec.notebook[1]),
    }
    notes = {
        "loss": "sum over features, exact expectation, importance-weighted",
        "selection": RULE,
        "members": members,
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_std": {
            "small": ToySpec().weight_std(*spec.small),
            "scaled": ToySpec().weight_std(*spec.scaled),
            "notebook": ToySpec().weight_std(*spec.notebook),
        },
    }
    return xr.Dataset(arrays, coords, notes)
