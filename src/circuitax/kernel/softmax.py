"""Softmax along one stated axis, with and without a mask.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures" and S2 the
attention chapter. E20, E21 and E22 are errata of the sources (docs/errata.md).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def softmax(z: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """``softmax(z)_i = exp(z_i) / Σ_j exp(z_j)`` along one axis.

    Source: S0 Definition 1.
    """
    return jax.nn.softmax(z, axis=axis)


def masked_softmax(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> Float[Array, "*batch dest src"]:
    """Softmax over the sources a mask allows; the others get exactly 0 and a zero gradient.

    Source: S0 Remark 11; S2, "Self-Attention and Causal Masking".
    """
    exponentials, total = masked_exponentials(scores, mask)
    return exponentials / total[..., None]


def masked_exponentials(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> tuple[Float[Array, "*batch dest src"], Float[Array, "*batch dest"]]:
    """`masked_softmax` before its division: ``exp(s - max s)``, and the sum of each row."""
    z = jnp.where(jnp.broadcast_to(mask, scores.shape), scores, -jnp.inf)
    # The shift cancels in the quotient, and so does its derivative. It is finite for every row.
    shift = jnp.maximum(jnp.max(z, axis=-1), jnp.finfo(z.dtype).min)
    exponentials = jnp.exp(z - jax.lax.stop_gradient(shift)[..., None])
    total = jnp.sum(exponentials, axis=-1)
    return exponentials, jnp.where(total > 0, total, 1)
