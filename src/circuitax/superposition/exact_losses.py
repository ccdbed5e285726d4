"""The exact expected loss of every network of an ensemble, in float64 on the host."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.expected_loss import expected_loss


def exact_losses(
    weights: TiedWeights,
    density: Float[Array, "member n_features"],
    importance: Float[Array, "member n_features"],
) -> np.ndarray:
    """`expected_loss` of every member, summed over features, whatever the caller's precision.

    Args:
        weights: One tied network for each member, with the axis of members in front.
        density: P(feature is on) in [0, 1], for each member.
        importance: I_i of each member, not negative.

    Returns:
        ``[member]``, float64.
    """
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), (weights, density, importance)
        )
        return np.asarray(jax.jit(jax.vmap(expected_loss))(*wide).value)
