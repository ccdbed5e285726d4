"""Weight decay of either sign: towards zero, or towards features of unit norm."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def signed_decay(
    W: Float[Array, "n_hidden n_features"], strength: Float[Array, ""] | float
) -> Float[Array, "n_hidden n_features"]:
    """``γ W`` for γ of 0 or more, and ``γ W_i (1/|W_i| - 1)`` for each feature i below 0.

    An update subtracts it times the learning rate. Decay of positive strength shrinks every
    feature; of negative strength it grows short features and shrinks long ones, so that all are
    drawn to unit norm and none is ignored. A feature of norm 0 stays where it is.

    Args:
        W: Features in columns.
        strength: γ, of either sign; it may be traced, so that a sweep compiles once.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), weight decay as the lever of superposition.
    """
    squares = jnp.sum(W**2, axis=0)
    dead = squares == 0
    inverse_norm = jnp.where(dead, 1, 1 / jnp.sqrt(jnp.where(dead, 1, squares)))
    factor = jnp.where(strength < 0, inverse_norm - 1, 1)
    return strength * W * factor[None, :]
