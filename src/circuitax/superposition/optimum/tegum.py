"""Tegum products of one polytope: its exact gain for every hidden dimension.

With many more features than dimensions, dimensions are what is scarce: a solution that fills them
with orthogonal copies of one polytope (k features in r dimensions) and ignores all other features
saves, against ignoring everything,

    gain = (k L_ignored - L_polytope) / r    for every dimension,

``L_ignored = p/3 - p^2/4`` being the variance of a feature. The polytope with the greatest gain is
the best such product, whatever the numbers of features and dimensions are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.checks import check_range
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.loss.expected_loss import expected_loss
from circuitax.superposition.optimum.bfgs import begin, minimise

# (features, dimensions) of the polytopes whose vertices are all alike.
TEGUM_FACTORS = {
    "dedicated": (1, 1),
    "tetrahedron": (4, 3),
    "triangle": (3, 2),
    "digon": (2, 1),
    "pentagon": (5, 2),
    "square antiprism": (8, 3),
    "hexagon": (6, 2),
}
MOST_FEATURES, MOST_DIMENSIONS = 8, 3
# Norm and bias from which every polytope is improved; the last is near the pentagon's.
STARTS = ((1.0, 0.0), (0.9, 0.1), (1.12, -0.23))
N_TERMS = 96
MAX_EVALUATIONS = 200


class TegumGains(NamedTuple):
    """The best norm and bias of every polytope at every density, ``[factor, density]``.

    Attributes:
        gain: Loss saved for each hidden dimension, against ignoring all features; sum loss, I = 1.
    """

    gain: Float[Array, "factor density"]
    norm: Float[Array, "factor density"]
    bias: Float[Array, "factor density"]


def vertices(name: str) -> np.ndarray:
    """Unit vertices of a polytope in columns, ``[3, 8]``, padded with zeros."""
    if name not in TEGUM_FACTORS:
        raise ValueError(f"name={name!r} must be one of {', '.join(TEGUM_FACTORS)}")
    k, r = TEGUM_FACTORS[name]
    if r == 1:
        corners = np.array([[1.0, -1.0]])[:, :k]
    elif r == 2:
        angle = 2 * np.pi * np.arange(k) / k
        corners = np.stack([np.cos(angle), np.sin(angle)])
    elif name == "tetrahedron":
        corners = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / 3**0.5
    else:
        turn = np.pi / 2 * np.arange(4)
        rings = np.concatenate([turn, turn + np.pi / 4])
        height = np.repeat([0.5**0.5, -(0.5**0.5)], 4)
        corners = np.stack([np.cos(rings), np.sin(rings), height]) / 1.5**0.5
    padded = np.zeros((MOST_DIMENSIONS, MOST_FEATURES))
    padded[:r, :k] = corners
    return padded


def tegum_gains(density: Float[Array, " density"]) -> TegumGains:
    """Optimise norm and bias of every polytope of `TEGUM_FACTORS` on the exact loss.

    Source: toy-models paper, "The Geometry of Superposition" (uniform superposition); the gain for
        each dimension is ours.
    """
    check_range("density", density, "(0, 1]")
    shapes = jnp.asarray(np.stack([vertices(name) for name in TEGUM_FACTORS]))
    sizes = np.array(list(TEGUM_FACTORS.values()), float)
    used = jnp.asarray(np.arange(MOST_FEATURES) < sizes[:, :1], density.dtype)
    k, r = (jnp.asarray(column)[:, None] for column in sizes.T)
    x, loss = _optimise(shapes, used, density)
    ignored = density / 3 - density**2 / 4
    gain = (k * ignored[None, :] - loss) / r
    return TegumGains(gain, x[..., 0], x[..., 1])


@jax.jit
def _optimise(
    shapes: Float[Array, "factor r k"],
    used: Float[Array, "factor k"],
    density: Float[Array, " density"],
) -> tuple[Float[Array, "factor density 2"], Float[Array, "factor density"]]:
    """Norm and bias with the lowest loss, from all starts, and that loss."""
    starts = jnp.asarray(STARTS, density.dtype)

    def one(V: Array, mask: Array, p: Array, start: Array) -> tuple[Array, Array]:
        def loss(x: Array) -> Array:
            weights = TiedWeights(x[0] * V, jnp.broadcast_to(x[1], mask.shape))
            densities = jnp.broadcast_to(p, mask.shape)
            return expected_loss(weights, densities, mask, n_terms=N_TERMS).value / p

        state = minimise(
            jax.value_and_grad(loss),
            begin(start),
            max_evaluations=MAX_EVALUATIONS,
            gradient_tolerance=1e-10,
        )
        return state.x, state.value * p

    over_starts = jax.vmap(one, (None, None, None, 0))
    over_density = jax.vmap(over_starts, (None, None, 0, None))
    x, loss = jax.vmap(over_density, (0, 0, None, None))(shapes, used, density, starts)
    best = jnp.argmin(loss, axis=-1)[..., None]
    return (
        jnp.take_along_axis(x, best[..., None], axis=-2)[..., 0, :],
        jnp.take_along_axis(loss, best, axis=-1)[..., 0],
    )
