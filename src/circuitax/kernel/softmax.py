"""Softmax along one stated axis, with and without a mask."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def softmax(z: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """``softmax(z)_i = exp(z_i) / Σ_j exp(z_j)`` along one axis.

    Invariant under adding the *same* constant to all entries of that axis, and under nothing else:
    S0 Definition 1 prints "any c in R^K" (E20).

    Args:
        z: Scores or logits.
        axis: The axis that sums to 1: sources for a pattern, the vocabulary for logits (E21).

    Source: S0 Definition 1.
    """
    return jax.nn.softmax(z, axis=axis)


def masked_softmax(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> Float[Array, "*batch dest src"]:
    """Softmax over the sources a mask allows; the others get exactly 0 and a zero gradient.

    The mask comes before the softmax. Zeroing afterwards, as S0 Remark 11 may be read, leaves the
    forbidden sources in the denominator and so leaks the future (E22). A destination without any
    allowed source gets a row of zeros, never NaN.

    Args:
        scores: Any finite scores.
        mask: True where the destination may read the source.

    Source: S0 Remark 11; S2, "Self-Attention and Causal Masking".
    Differs: the lowest finite number instead of minus infinity, so that gradients stay finite.
    """
    allowed = jnp.broadcast_to(mask, scores.shape)
    lowest = jnp.finfo(scores.dtype).min
    return jnp.where(allowed, jax.nn.softmax(jnp.where(allowed, scores, lowest), axis=-1), 0)
