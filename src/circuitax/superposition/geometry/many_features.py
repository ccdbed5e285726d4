"""Dimensionality of features too many for a table of pairs, such as tokens or neurons."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.superposition.geometry.geometry import SMALLEST_NORM


def dimensionality_of_rows(rows: Float[Array, "n_features dim"]) -> Float[Array, " n_features"]:
    """``D_i = |w_i|^2 / sum_j (what_i . w_j)^2``, each row's share of a dimension.

    With ``M = sum_j w_j w_j^T`` it is ``|w_i|^4 / (w_i^T M w_i)``.
    Equal to `geometry.dimensionality` of the transpose, in ``O(n d^2)`` instead of ``O(n^2 d)``.
    The sum over i is at most the rank. For random directions it is about ``1 / (1 + n / d)``.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    squares = jnp.sum(rows**2, axis=1)
    live = squares > SMALLEST_NORM**2
    moments = jnp.matmul(rows.T, rows, precision="highest")
    driven = jnp.sum(jnp.matmul(rows, moments, precision="highest") * rows, axis=1)
    return jnp.where(live, squares**2 / jnp.where(live, driven, 1), 0)
