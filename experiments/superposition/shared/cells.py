"""Toy models of every seed in every cell: what they are trained on, and what a record keeps."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from numpy.typing import ArrayLike

from circuitax.kernel.weights import TiedWeights
from circuitax.kit.members import crossed_training, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.superposition.expected_loss import exact_losses
from circuitax.training.ensemble import best_of
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem


def cells_over(density: ArrayLike, importance: ArrayLike) -> ToyHyper:
    """One cell for each density, all with the same importances of features, ``[cell, n]``."""
    p, weight = np.broadcast_arrays(np.asarray(density)[:, None], importance)
    return ToyHyper(jnp.asarray(p), jnp.asarray(weight))


def by_cell(members: ArrayLike, seeds: int) -> np.ndarray:
    """Numbers of members ``[seed * cell, ...]``, in the order of training, as ``[cell, seed]``."""
    values = np.asarray(members)
    return np.moveaxis(values.reshape(seeds, -1, *values.shape[1:]), 0, 1)


def networks(
    weights: tuple[ArrayLike, ArrayLike], alive: np.ndarray, loss: np.ndarray, **axes: int
) -> dict[str, Any]:
    """Arrays of all networks: weights and biases, losses, and the best seed of each cell.

    Args:
        weights: W and b of the members.
        alive: Whether a member stayed finite; the loss of one that did not is NaN.
        loss: By which the best is chosen, summed over features.
        **axes: Length of each axis by its name, that of seeds first.
    """
    W, b = map(np.asarray, weights)
    dims, shape = tuple(axes), tuple(axes.values())
    alive = alive.reshape(shape)
    loss = np.where(alive, loss.reshape(shape), np.nan)
    best = best_of(*(jnp.moveaxis(jnp.asarray(a), 0, -1) for a in (loss, alive)))
    return {
        "loss": (dims, loss),
        "alive": (dims, alive),
        "W": ((*dims, "hidden", "feature"), W.reshape(*shape, *W.shape[1:])),
        "b": ((*dims, "feature"), b.reshape(*shape, -1)),
        "best": (dims[1:], np.asarray(best.restart)),
    }


def best_trained(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    problem: ToyProblem,
    optim: OptimSpec,
    density: float,
    *,
    seeds: int = 1,
    candidates: int,
) -> tuple[TiedWeights, np.ndarray]:
    """For each seed the one of several tied models with the lowest exact loss, and that loss.

    All features have one density and importance 1; the loss is summed over them.
    """
    cell, total = cells_over([density], np.ones(problem.model.n_features)), seeds * candidates
    trained = crossed_training(lab, name, key, problem, optim, cell, seeds=total)
    every = in_every_seed(cell, total)
    loss = lab.stage(f"{name}-loss", exact_losses, trained.models, *every)
    by_seed = np.where(trained.alive, loss, np.inf).reshape(seeds, candidates)
    best = np.arange(seeds) * candidates + by_seed.argmin(axis=1)
    return TiedWeights(*(np.asarray(leaf)[best] for leaf in trained.models)), loss[best]
