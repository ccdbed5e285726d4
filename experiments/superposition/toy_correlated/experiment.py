"""Correlated and anticorrelated features: how sets of them arrange, and when pairs collapse.

Four experiments of "Toy Models of Superposition", correlated features: two correlated pairs and two
anticorrelated pairs in two dimensions; three correlated pairs in two dimensions, which collapse one
after the other as density rises; and two sets of ten in ten dimensions (local bases).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.superposition.correlated_sets import SetPatterns, set_loss, set_patterns
from circuitax.superposition.expected_loss import Convention
from circuitax.training.ensemble import RULE
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import Features, ToyHyper, ToyProblem
from experiments.superposition.shared.cells import networks

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
    members: dict[str, Any] = {}

    def train(name: str, p: Iterable[float], model: ToySpec, size: int, how: Features) -> Trained:
        """Every seed at every density of the sets of an arm, in one ensemble."""
        problem = ToyProblem(model, spec.batch_size, Convention.sum, features=how, set_size=size)
        density = coords[f"{name}_density"] = np.asarray(p)
        of_sets = np.repeat(density[:, None], model.n_features // size, axis=1)
        cells = ToyHyper(jnp.asarray(of_sets), jnp.ones((len(density), model.n_features)))
        given = derive(key, name), problem, spec.optim, cells
        trained = crossed_training(lab, f"train-{name}", *given, seeds=spec.seeds)
        members[name] = trained.divergence
        return trained

    for name, (n_sets, how) in ARMS.items():
        given = spec.crowded_density if name == "crowded" else spec.pair_density
        trained = train(name, given, ToySpec(PAIR * n_sets, N_HIDDEN), PAIR, how)
        density = coords[f"{name}_density"]
        opposite = how is Features.anticorrelated
        with jax.enable_x64(True):
            patterns = set_patterns(
                n_sets, PAIR, anticorrelated=opposite, log2_points=spec.log2_points
            )
        loss = lab.stage(f"loss-{name}", _losses, trained.models, density, patterns)
        axes = {"seed": spec.seeds, f"{name}_density": len(density)}
        found = networks(trained.models, trained.alive, loss, **axes)
        arrays |= {f"{name}_{of}": found[of] for of in ("loss", "best")}
        arrays[f"{name}_W"] = ((*axes, "hidden", f"{name}_feature"), found["W"][1])
    size = spec.basis_size
    trained = train("basis", spec.basis_density, ToySpec(2 * size, size), size, Features.correlated)
    shape = (spec.seeds, len(spec.basis_density), size, 2 * size)
    dims = ("seed", "basis_density", "basis_hidden", "basis_feature")
    arrays["basis_W"] = (dims, np.asarray(trained.models.W).reshape(shape))
    arrays["basis_loss"] = (dims[:2], trained.training_loss[-1].reshape(shape[:2]))
    notes = {
        "loss": "sum over features; exact patterns of sets, quasi-Monte Carlo over values",
        "selection": RULE,
        "members": members,
        "data": "own stream for each seed, the same keys in all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "points": 2**spec.log2_points,
    }
    return xr.Dataset(arrays, coords, notes)


def _losses(models: TiedWeights, density: np.ndarray, patterns: SetPatterns) -> np.ndarray:
    """The exact loss of every network, ``[seed, density]``."""
    by_seed = (np.asarray(leaf, np.float64) for leaf in models)
    by_seed = (leaf.reshape(-1, len(density), *leaf.shape[1:]) for leaf in by_seed)
    with jax.enable_x64(True):
        weights = TiedWeights(*map(jnp.asarray, by_seed))
        over_density = jax.vmap(set_loss, (0, 0, None))
        mapped = jax.jit(jax.vmap(over_density, (0, None, None)))
        return np.asarray(mapped(weights, jnp.asarray(density), patterns))
