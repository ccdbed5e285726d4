"""Saturation of a softmax: entropy of its rows, and their sensitivity to scores.

Sources (docs/bibliography.md): S1 is the linear-algebra post and S2 the attention chapter.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def row_entropy(pattern: Float[Array, "*batch dest src"]) -> Float[Array, "*batch dest"]:
    """``-Σ_s A_ts ln A_ts`` in nats, 0 where all attention is on one source."""
    positive = jnp.where(pattern > 0, pattern, 1)
    return -jnp.sum(pattern * jnp.log(positive), axis=-1)


def jacobian_norm(pattern: Float[Array, "*batch dest src"]) -> Float[Array, "*batch dest"]:
    """Frobenius norm of the softmax's Jacobian ``diag(a) - a aᵀ`` at each row a.

    ``‖J‖² = Σ a² - 2 Σ a³ + (Σ a²)²``; 0 for a saturated row, through which no gradient flows, and
    ``sqrt((n - 1)) / n`` for a uniform one over n sources. Computed as a sum of squares of the
    entries, so that it does not cancel.

    Source: S1 and S2, "saturation with near-zero gradients".
    """
    square = jnp.square(pattern)
    diagonal = jnp.sum(jnp.square(pattern * (1 - pattern)), axis=-1)
    # Off the diagonal: (Σ a²)² - Σ a⁴ = Σ_s a_s² (Σ a² - a_s²), whose terms are not negative.
    rest = jnp.sum(square * (jnp.sum(square, axis=-1, keepdims=True) - square), axis=-1)
    return jnp.sqrt(diagonal + jnp.maximum(rest, 0))
