"""The exact expected loss of every network of an ensemble, in float64 on the host."""

import jax
import numpy as np
from jaxtyping import Float

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.expected_loss import expected_loss
from circuitax.superposition.padding import Numbers, Padding, unpacked


def exact_losses(
    weights: TiedWeights,
    density: Float[Numbers, "member n_features"],
    importance: Float[Numbers, "member n_features"],
) -> np.ndarray:
    """`expected_loss` of every member, summed over features, whatever the caller's precision.

    Args:
        weights: One tied network for each member, with the axis of members in front.
        density: P(feature is on) in [0, 1], for each member.
        importance: I_i of each member, not negative.

    Returns:
        ``[member]``, float64.
    """
    padding = Padding(*weights.W.shape[-2:])
    wide = TiedWeights(*(np.asarray(leaf, np.float64) for leaf in weights))
    filled = unpacked(padding.pack(wide), padding.rows)
    settings = (padding.fill(np.asarray(a, np.float64)) for a in (density, importance))
    with jax.enable_x64(True):
        return np.asarray(_expected_losses(filled, *settings).value)


_expected_losses = jax.jit(jax.vmap(expected_loss))
