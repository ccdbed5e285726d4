"""Attacks on a toy model: a small change of the input that raises the error of the output.

The error is measured against the input before the change. Every function takes one model and a
batch of inputs; use ``jax.vmap`` for several models.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.toy import tied_forward
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.features import SMALLEST_NORM, gram


def attack_directions(
    W: Float[Array, "n_hidden n_features"],
) -> Float[Array, "n_features n_features"]:
    """``(W^T W)_i / |(W^T W)_i|`` in row i: the direction that raises output i the most.

    Source: toy-models paper, "Relationship to adversarial robustness".
    """
    rows = gram(W)
    squares = jnp.sum(rows**2, axis=1, keepdims=True)
    live = squares > SMALLEST_NORM**4
    return jnp.where(live, rows / jnp.sqrt(jnp.where(live, squares, 1)), 0)


def input_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    change: Float[Array, "*batch n_features"],
) -> Float[Array, " batch"]:
    """``sum_i I_i (x_i - out_i(x + change))^2``, the error of every input after a change."""
    output = tied_forward(weights, x + jnp.broadcast_to(change, x.shape))
    return (output - x) ** 2 @ importance


def analytic_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
) -> Float[Array, "attack batch"]:
    """The error of every input under ``±strength`` times each of `attack_directions`.

    Source: toy-models paper, "Relationship to adversarial robustness".
    Differs: the paper does not say whether the sign is fixed or the feature is chosen for each
        input.
    """
    directions = attack_directions(weights.W)
    changes = strength * jnp.concatenate([directions, -directions])
    return jax.lax.map(lambda change: input_errors(weights, x, importance, change), changes)


def gradient_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
    *,
    n_steps: int = 5,
) -> Float[Array, " batch"]:
    """The error of every input after projected gradient ascent inside the ball of ``strength``.

    Source: toy-models paper, "Relationship to adversarial robustness" (gradient masking); the
        ascent is that of Madry et al. 2018, arXiv 1706.06083.
    """

    def total(change: Array) -> Float[Array, ""]:
        return jnp.sum(input_errors(weights, x, importance, change))

    def step(change: Array, _: None) -> tuple[Array, None]:
        moved = change + strength / 2 * _unit(jax.grad(total)(change))
        norm = jnp.sqrt(jnp.sum(moved**2, axis=-1, keepdims=True))
        return moved * jnp.minimum(1, strength / jnp.maximum(norm, SMALLEST_NORM)), None

    change, _ = jax.lax.scan(step, jnp.zeros_like(x), length=n_steps)
    return input_errors(weights, x, importance, change)


def attack_bound(
    weights: TiedWeights,
    errors: Float[Array, " batch"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
) -> Float[Array, " batch"]:
    """Upper bound on each input's error under any change of norm ``strength``."""
    stretch = jnp.sqrt(jnp.max(importance)) * jnp.linalg.norm(weights.W, ord=2) ** 2
    return (jnp.sqrt(errors) + strength * stretch) ** 2


def _unit(rows: Float[Array, "batch n"]) -> Float[Array, "batch n"]:
    squares = jnp.sum(rows**2, axis=-1, keepdims=True)
    return jnp.where(squares > 0, rows / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)
