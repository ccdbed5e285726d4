"""Correlated and anticorrelated features: how sets of them arrange, and when pairs collapse.

Four experiments of "Toy Models of Superposition", correlated features: two correlated pairs and two
anticorrelated pairs in two dimensions; three correlated pairs in two dimensions, which collapse one
after the other as density rises; and two sets of ten in ten dimensions (local bases).
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
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.correlated_sets import SetPatterns, set_loss, set_patterns
from circuitax.superposition.expected_loss import Convention
from circuitax.training.ensemble import RULE, best_of
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import Features, ToyHyper, ToyProblem

PAIR = 2
# Name: number of sets, how members of a set occur together.
ARMS = {
    "correlated": (2, Features.correlated),
    "anticorrelated": (2, Features.anticorrelated),
    "crowded": (3, Features.correlated),
}
N_HIDDEN = 2


@dataclass(frozen=True)
class Spec:
    """Densities of sets, and sizes of the local bases.

    Attributes:
        pair_density: P(pair is on) for two pairs; the paper states none.
        crowded_density: P(pair is on) for three pairs.
        basis_density: P(set is on) for the local bases; the paper states none.
        basis_size: Features of each of the two sets of local bases, which is the number of hidden
            dimensions too; 10 in the paper.
        seeds: Independent initialisations and data streams, the same at all densities.
        batch_size: Fresh samples a step.
        optim: The paper does not state it.
        log2_points: Logarithm of the number of quadrature points.
    """

    pair_density: Annotated[Any, "(0, 1]"] = (0.02, 0.05)
    crowded_density: Annotated[Any, "(0, 1]"] = (0.03, 0.1, 0.17, 0.4)
    basis_density: Annotated[Any, "(0, 1]"] = (0.03,)
    basis_size: Positive = 10
    seeds: Positive = 8
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    log2_points: Annotated[int, "[1, 16]"] = 9


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every arm; evaluate the networks in two dimensions on the exact loss."""
    arrays: dict[str, Any] = {}
    coords: dict[str, Any] = {"seed": np.arange(spec.seeds)}
    members = {}
    for name, (n_sets, features) in ARMS.items():
        density = spec.crowded_density if name == "crowded" else spec.pair_density
        found, members[name] = _arm(lab, name, key, spec, np.asarray(density), n_sets, features)
        axis, feature = f"{name}_density", f"{name}_feature"
        coords[axis] = np.asarray(density)
        dims = ("seed", axis)
        arrays |= {
            f"{name}_W": ((*dims, "hidden", feature), found["W"]),
            f"{name}_loss": (dims, found["loss"]),
            f"{name}_best": (axis, found["best"]),
        }
    size = spec.basis_size
    density = np.asarray(spec.basis_density)
    trained = _train(lab, "basis", key, spec, (2 * size, size), size, density, Features.correlated)
    members["basis"] = trained.divergence
    shape = (spec.seeds, len(density), size, 2 * size)
    W = np.asarray(trained.models.W).reshape(shape)
    axes = ("seed", "basis_density", "basis_hidden", "basis_feature")
    arrays["basis_W"] = (axes, W)
    arrays["basis_loss"] = (axes[:2], trained.training_loss[-1].reshape(shape[:2]))
    coords["basis_density"] = density
    notes = {
        "loss": "sum over features; exact patterns of sets, quasi-Monte Carlo over values",
        "selection": RULE,
        "members": members,
        "data": "own stream for each seed, the same keys in all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "points": 2**spec.log2_points,
    }
    return xr.Dataset(arrays, coords, notes)


def _train(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    spec: Spec,
    size: tuple[int, int],
    set_size: int,
    density: np.ndarray,
    features: Features,
) -> Trained:
    """Every seed at every density, in one ensemble."""
    problem = ToyProblem(
        ToySpec(*size), spec.batch_size, Convention.sum, features=features, set_size=set_size
    )
    n_sets = size[0] // set_size
    p = jnp.asarray(np.repeat(density[:, None], n_sets, axis=1))
    cells = ToyHyper(p, jnp.ones((len(density), size[0])))
    return crossed_training(
        lab, f"train-{name}", derive(key, name), problem, spec.optim, cells, seeds=spec.seeds
    )


def _arm(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    spec: Spec,
    density: np.ndarray,
    n_sets: int,
    features: Features,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Trained networks of pairs in two dimensions, their losses, and the best of each density."""
    size = (PAIR * n_sets, N_HIDDEN)
    trained = _train(lab, name, key, spec, size, PAIR, density, features)
    shape = (spec.seeds, len(density))
    W = np.asarray(trained.models.W).reshape(*shape, N_HIDDEN, size[0])
    b = np.asarray(trained.models.b).reshape(*shape, size[0])
    alive = trained.alive.reshape(shape)
    with jax.enable_x64(True):
        patterns = set_patterns(
            n_sets,
            PAIR,
            anticorrelated=features is Features.anticorrelated,
            log2_points=spec.log2_points,
        )
    loss = lab.stage(f"loss-{name}", _losses, W, b, density, patterns)
    loss = np.where(alive, loss, np.nan)
    best = np.asarray(best_of(jnp.asarray(loss.T), jnp.asarray(alive.T)).restart)
    return {"W": W, "loss": loss, "best": best}, trained.divergence


def _losses(W: np.ndarray, b: np.ndarray, density: np.ndarray, patterns: SetPatterns) -> np.ndarray:
    """The exact loss of every network, ``[seed, density]``."""
    with jax.enable_x64(True):
        weights = TiedWeights(jnp.asarray(W, jnp.float64), jnp.asarray(b, jnp.float64))
        over_density = jax.vmap(set_loss, (0, 0, None))
        mapped = jax.jit(jax.vmap(over_density, (0, None, None)))
        return np.asarray(mapped(weights, jnp.asarray(density), patterns))
