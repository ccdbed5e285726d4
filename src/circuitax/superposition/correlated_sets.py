"""Expected loss and optimum of a tied model whose features occur in correlated sets.

A set is off, or on as a whole (correlated), or on with exactly one member (anticorrelated). The
sets are independent, so the expected loss is a sum over patterns of sets with known probabilities,

    E loss = sum_k P_k mean_u sum_i I_i (x_i - relu(W^T W x + b)_i)^2,    x = mask_k u,

and the mean over the values u of the features, uniform on [0, 1], is a quasi-Monte Carlo sum over
Sobol points. The patterns are exact, however rare; the values have an error of about 1/n_points.
"""

import itertools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.descent import begin, minimise

MAX_EVALUATIONS = 300


class SetPatterns(NamedTuple):
    """All patterns of sets, and the values of their features.

    Attributes:
        mask: 1 for features that are on.
        n_on: Sets that are on.
        share: Probability of the pattern among those with the same sets on.
    """

    mask: Float[Array, "pattern n_features"]
    n_on: Float[Array, " pattern"]
    share: Float[Array, " pattern"]
    n_sets: Float[Array, ""]
    points: Float[Array, "point n_features"]


class SetOptimum(NamedTuple):
    """The best solution at every density, with the loss of all its restarts."""

    weights: TiedWeights
    loss: Float[Array, " cell"]
    restart_loss: Float[Array, "cell restart"]


def set_patterns(
    n_sets: int, set_size: int, *, anticorrelated: bool = False, log2_points: int = 9, seed: int = 0
) -> SetPatterns:
    """The patterns of equal sets, set s being features ``s * set_size`` and following.

    Source: toy-models paper, "Correlated and anticorrelated features"; layout as
        `kernel.features.sample_correlated`.
    """
    from scipy.stats import qmc  # costs over a second: only when it is needed

    choices = [np.zeros(set_size)]
    choices += list(np.eye(set_size)) if anticorrelated else [np.ones(set_size)]
    picks = list(itertools.product(range(len(choices)), repeat=n_sets))
    mask = np.array([np.concatenate([choices[i] for i in pick]) for pick in picks])
    n_on = np.array([sum(i > 0 for i in pick) for pick in picks], float)
    share = (1 / (len(choices) - 1)) ** n_on
    sobol = qmc.Sobol(n_sets * set_size, rng=np.random.default_rng(seed))
    arrays = (mask, n_on, share, np.float64(n_sets), sobol.random_base2(log2_points))
    return SetPatterns(*(jnp.asarray(a) for a in arrays))


def set_loss(
    weights: TiedWeights, density: Float[Array, ""], patterns: SetPatterns
) -> Float[Array, ""]:
    """The expected error, summed over features of importance 1.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    off = patterns.n_sets - patterns.n_on
    probability = patterns.share * density**patterns.n_on * (1 - density) ** off

    def of_pattern(mask: Array) -> Array:
        x = patterns.points * mask[None, :]
        z = (x @ weights.W.T) @ weights.W + weights.b[None, :]
        return jnp.mean(jnp.sum((x - jax.nn.relu(z)) ** 2, axis=1))

    return probability @ jax.vmap(of_pattern)(patterns.mask)


def set_optimum(
    key: Key[Array, ""],
    density: Float[Array, " cell"],
    patterns: SetPatterns,
    *,
    n_hidden: int,
    n_restarts: int,
    starts: TiedWeights | None = None,
) -> SetOptimum:
    """The lowest expected error at every density, from random and given starts by BFGS.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    n = patterns.mask.shape[1]
    W = jax.random.normal(derive(key, "starts"), (n_restarts, n_hidden, n), density.dtype)
    first = TiedWeights(W / n_hidden**0.5, jnp.zeros((n_restarts, n), density.dtype))
    if starts is not None:
        first = jax.tree.map(lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), first, starts)
    x, loss = _minimise(_flat(first), density, patterns, n_hidden)
    best = jnp.argmin(loss, axis=1)
    chosen = jnp.take_along_axis(x, best[:, None, None], axis=1)[:, 0]
    return SetOptimum(
        jax.vmap(partial(_weights, n_hidden=n_hidden))(chosen), loss.min(axis=1), loss
    )


@partial(jax.jit, static_argnums=3)
def _minimise(
    starts: Float[Array, "restart d"],
    density: Float[Array, " cell"],
    patterns: SetPatterns,
    n_hidden: int,
) -> tuple[Float[Array, "cell restart d"], Float[Array, "cell restart"]]:
    """Final weights of every start of every cell, and their loss."""

    def cell(p: Array) -> tuple[Array, Array]:
        def one(start: Array) -> tuple[Array, Array]:
            def loss(x: Array) -> Array:
                # A loss of order 1 at every density, so that tolerances mean the same.
                return set_loss(_weights(x, n_hidden), p, patterns) / p

            state = minimise(
                jax.value_and_grad(loss),
                begin(start),
                max_evaluations=MAX_EVALUATIONS,
                gradient_tolerance=1e-6,
                value_tolerance=1e-8,
            )
            return state.x, state.value * p

        return jax.vmap(one)(starts)

    return jax.lax.map(cell, density)


def _flat(weights: TiedWeights) -> Float[Array, "restart d"]:
    n_starts = weights.W.shape[0]
    size = weights.W.shape[1] * weights.W.shape[2]
    return jnp.concatenate([weights.W.reshape(n_starts, size), weights.b], axis=1)


def _weights(x: Float[Array, " d"], n_hidden: int) -> TiedWeights:
    n = x.shape[0] // (n_hidden + 1)
    return TiedWeights(x[: n_hidden * n].reshape(n_hidden, n), x[n_hidden * n :])
