"""Superposition demonstrated: linear and ReLU models over sparsity, at three sizes.

This is "Demonstrating Superposition" of the toy-models paper: n = 20 features in m = 5 dimensions
with importance 0.7^i, its enlarged copy 80 / 20 with 0.9^i, and the 100 / 20 model of the official
notebook, whose importance falls from 1 to 1/100.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Key

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kernel.mlp import Activation
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training, each_member, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention, exact_losses, linear_loss
from circuitax.superposition.features import interference_sq
from circuitax.training.ensemble import RULE, best_of
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem


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
    cells = _cells(spec.density, 0.7 ** np.arange(spec.small[0]))
    arrays: dict[str, Any] = {}
    members: dict[str, Any] = {}
    for name, output in (("relu", Activation.relu), ("linear", Activation.linear)):
        trained = _train(lab, name, key, spec, spec.small, cells, output)
        members[name] = trained.divergence
        everywhere = in_every_seed(cells, spec.seeds)
        if output is Activation.relu:
            loss = lab.stage(f"loss-{name}", exact_losses, trained.models, *everywhere)
        else:
            loss = np.asarray(jax.vmap(linear_loss)(trained.models, *everywhere))
        arrays |= _networks(name, trained, loss, spec)
    falls = {
        ("scaled", "density"): 0.9 ** np.arange(spec.scaled[0]),
        ("notebook", "notebook_density"): 100 ** -np.linspace(0, 1, spec.notebook[0]),
    }
    for (name, axis), importance in falls.items():
        size, larger = getattr(spec, name), _cells(getattr(spec, axis), importance)
        trained = _train(lab, name, key, spec, size, larger, Activation.relu)
        members[name] = trained.divergence
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


def _cells(density: tuple[float, ...], importance: np.ndarray) -> ToyHyper:
    """One cell for each density, ``[cell, n]``."""
    p = np.repeat(np.asarray(density)[:, None], len(importance), axis=1)
    return ToyHyper(jnp.asarray(p), jnp.asarray(np.broadcast_to(importance, p.shape)))


def _train(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    spec: Spec,
    size: tuple[int, int],
    cells: ToyHyper,
    output: Activation,
) -> Trained:
    """Every seed at every density, in one ensemble."""
    batch = spec.batch_size if size == spec.small else spec.large_batch_size
    problem = ToyProblem(ToySpec(*size, output=output), batch, Convention.sum)
    return crossed_training(
        lab, f"train-{name}", derive(key, name), problem, spec.optim, cells, seeds=spec.seeds
    )


def _networks(name: str, trained: Trained, loss: np.ndarray, spec: Spec) -> dict[str, Any]:
    """All seeds of the small models."""
    dims, shape = ("seed", "density"), (spec.seeds, len(spec.density))
    W, b = np.asarray(trained.models.W), np.asarray(trained.models.b)
    alive = trained.alive.reshape(shape)
    loss = np.where(alive, loss.reshape(shape), np.nan)
    overlap = np.asarray(each_member(interference_sq)(trained.models.W))
    best = best_of(jnp.asarray(loss.T), jnp.asarray(alive.T))
    return {
        f"{name}_W": ((*dims, "hidden", "feature"), W.reshape(*shape, *W.shape[1:])),
        f"{name}_b": ((*dims, "feature"), b.reshape(*shape, -1)),
        f"{name}_interference": ((*dims, "feature"), overlap.reshape(*shape, -1)),
        f"{name}_loss": (dims, loss),
        f"{name}_alive": (dims, alive),
        f"{name}_best": ("density", np.asarray(best.restart)),
    }
