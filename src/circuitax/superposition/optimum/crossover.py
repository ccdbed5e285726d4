"""Crossover of five features in two dimensions: two digons against the pentagon."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.optimum.optimum import find_optimum

N_FEATURES = 5
# The least norm tells the branches apart: two digons drop a feature, a pentagon drops none.
DROPPED_NORM = 0.5


class Branches(NamedTuple):
    """Lowest sum loss of each kind of solution at every density; infinite where there is none."""

    digons: Float[Array, " density"]
    pentagon: Float[Array, " density"]


def digon_starts() -> TiedWeights:
    """The three antipodal pairings of features 0 to 3, feature 4 left out, ``[3, ...]``."""
    pairings = [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)]
    W = np.zeros((len(pairings), 2, N_FEATURES))
    for start, (a, b, c, d) in zip(W, pairings, strict=True):
        start[0, [a, b]] = 1, -1
        start[1, [c, d]] = 1, -1
    bias = np.zeros((len(pairings), N_FEATURES))
    bias[:, 4] = 0.1
    return TiedWeights(jnp.asarray(W), jnp.asarray(bias))


def pentagon_starts() -> TiedWeights:
    """The twelve regular pentagons distinct up to rotation and reflection, ``[12, ...]``."""
    orders = [(0, *rest) for rest in itertools.permutations(range(1, 5)) if rest[0] < rest[-1]]
    angle = 2 * np.pi * np.argsort(orders, axis=1) / N_FEATURES
    W = 1.1 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return TiedWeights(jnp.asarray(W), jnp.full((len(orders), N_FEATURES), -0.21))


def branch_losses(density: Float[Array, " density"], importance: Float[Array, " 5"]) -> Branches:
    """Follow both kinds of solution over density, each from all its starts.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    starts = jax.tree.map(
        lambda one, two: jnp.concatenate([one, two]), digon_starts(), pentagon_starts()
    )
    cells = density.shape[0]
    found = find_optimum(
        jax.random.key(0),  # no random start is drawn
        jnp.broadcast_to(density[:, None], (cells, N_FEATURES)),
        jnp.broadcast_to(importance[None, :], (cells, N_FEATURES)),
        n_hidden=2,
        n_restarts=0,
        starts=starts,
        n_polished=15,
        thorough=False,
    )
    norms = jnp.linalg.norm(found.restart_weights.W, axis=-2)
    whole = jnp.min(norms, axis=-1) > DROPPED_NORM
    lowest = [
        jnp.min(jnp.where(kind, found.restart_loss, jnp.inf), axis=1) for kind in (~whole, whole)
    ]
    return Branches(*lowest)


def perturbed_branches(
    density: Float[Array, " cell"], ratio: Float[Array, " cell"]
) -> tuple[Branches, Branches, TiedWeights]:
    """Both kinds of solution when feature 4 has another density than the other four.

    Source: toy-models paper, "The Geometry of Superposition" (non-uniform superposition); erratum
        E18 of docs/errata.md.
    """
    others = jnp.repeat(density[:, None], N_FEATURES - 1, axis=1)
    p = jnp.concatenate([others, (density * ratio)[:, None]], axis=1)
    starts = jax.tree.map(
        lambda one, two: jnp.stack([one[0], two[0]]), digon_starts(), pentagon_starts()
    )
    found = find_optimum(
        jax.random.key(0),  # no random start is drawn
        p,
        jnp.ones_like(p),
        n_hidden=2,
        n_restarts=0,
        starts=starts,
        n_polished=2,
        thorough=False,
    )
    last = jnp.linalg.norm(found.restart_weights.W[..., -1], axis=-1)
    whole = last > DROPPED_NORM
    kept = jnp.stack([~whole[:, 0], whole[:, 1]], axis=1)
    loss = jnp.where(kept, found.restart_loss, jnp.inf)
    norm = jnp.where(kept, last, jnp.nan)
    return Branches(*loss.T), Branches(*norm.T), found.restart_weights
