"""Expected loss of a tied model with a linear output, in closed form."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.checks import check_range
from circuitax.kernel.weights import TiedWeights


def linear_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
) -> Float[Array, ""]:
    """``E_x sum_i I_i (x_i - (W^T W x + b)_i)^2`` for independent sparse features.

    ``sum_i I_i [ sum_j R_ij^2 v_j + (R mu - b)_i^2 ]`` with ``R = 1 - W^T W``, the mean
    ``mu = p / 2`` and the variance ``v = p / 3 - p^2 / 4`` of a feature that is zero with
    probability ``1 - p`` and else uniform on [0, 1].

    Source: toy-models paper, "Demonstrating Superposition" (linear model); its loss is that of
        principal components.
    """
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    missing = jnp.eye(density.shape[0], dtype=weights.W.dtype) - weights.W.T @ weights.W
    variance = density / 3 - density**2 / 4
    offset = missing @ (density / 2) - weights.b
    return importance @ (missing**2 @ variance + offset**2)
