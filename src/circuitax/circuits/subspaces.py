"""Where heads read and write in the stream: overlaps of subspaces, and how full the stream is.

Unlike composition scores these ignore how strongly a direction is used, and they do not depend on
the basis inside a head.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.decompositions import orthonormal, singular, symmetric_eigenvalues
from circuitax.kernel.linalg import participation_ratio, safe_divide


class Overlap(NamedTuple):
    """Overlap of pairs of subspaces, and what random ones of equal sizes would have."""

    value: Float[Array, "*pairs"]
    """``Σ cos² / min(a, b)`` over the principal angles, in [0, 1]."""
    null: float
    """``max(a, b) / d``, the mean for Haar-random subspaces."""
    std: float
    """Their standard deviation; ``(value - null) / std`` is a z-score."""


def basis(W: Float[Array, "*batch d_model k"]) -> Float[Array, "*batch d_model k"]:
    """Orthonormal columns with the span of W's columns; W has full column rank.

    Raises:
        ValueError: If ``k`` is more than d_model, where columns cannot be independent.
    """
    d_model, k = W.shape[-2:]
    if k > d_model:
        raise ValueError(f"W has k={k} columns, must have at most d_model={d_model}")
    return orthonormal(W)[0]


def overlap(x: Float[Array, "*batch d_model a"], y: Float[Array, "*batch d_model_y b"]) -> Overlap:
    """How much of the smaller column space lies in the larger one.

    ``‖B_xᵀ B_y‖² / min(a, b)`` with orthonormal bases, which is the projection kernel.

    Args:
        x: For what a head writes, ``W_Oᵀ``.
        y: For what a head reads, ``W_Q``, ``W_K`` or ``W_V``.

    Raises:
        ValueError: If ``x`` and ``y`` differ in d_model, or have more columns than that.

    Source: S4, "bandwidth of the residual stream"; null by invariance: E‖B_xᵀ B_y‖² = a b / d, and
        the variance of `composition`'s null, with projectors: 2 a (d-a) b (d-b) / (d² (d-1) (d+2)).
    """
    d, a, b = x.shape[-2], x.shape[-1], y.shape[-1]
    shared = jnp.sum(principal_cosines(x, y) ** 2, axis=-1)
    variance = 2 * a * (d - a) * b * (d - b) / (d**2 * (d - 1) * (d + 2)) if d > 1 else 0.0
    return Overlap(shared / min(a, b), max(a, b) / d, variance**0.5 / min(a, b))


def principal_cosines(
    x: Float[Array, "*batch d_model a"], y: Float[Array, "*batch d_model_y b"]
) -> Float[Array, "*batch k"]:
    """Cosines of the principal angles between two column spaces, in falling order.

    Raises:
        ValueError: If ``x`` and ``y`` differ in d_model.
    """
    if x.shape[-2] != y.shape[-2]:
        raise ValueError(f"y has d_model={y.shape[-2]}, must have that of x, {x.shape[-2]}")
    inner = jnp.matrix_transpose(basis(x)) @ basis(y)
    return jnp.clip(singular(inner), 0, 1)


class Bandwidth(NamedTuple):
    """How the writers of a model share the dimensions of the stream."""

    written: float
    """Dimensions all writers have together, over d_model: above 1 they must share."""
    effective: Float[Array, ""]
    """Participation ratio of the mean projector's spectrum, over d_model; 1 if used evenly."""
    reused: Float[Array, ""]
    """Mean overlap between two different writers, in [0, 1]; ``k / d_model`` at random."""


def bandwidth(W_O: Float[Array, "n_writers k d_model"]) -> Bandwidth:
    """Use of the residual stream by heads (or groups of neurons), from their write spaces.

    Args:
        W_O: One matrix a writer, row form; flatten layers and heads.

    Source: S4 and the framework paper, "the residual stream has limited bandwidth".
    """
    n, k, d = W_O.shape
    B = basis(jnp.matrix_transpose(W_O))
    total = jnp.einsum("nik,njk->ij", B, B)
    spectrum = jnp.clip(symmetric_eigenvalues(total), 0)
    # Σ_{m≠n} ‖B_mᵀ B_n‖² is ‖total‖² less the n diagonal terms of k each
    pairs = jnp.asarray(n * (n - 1) * k, W_O.dtype)
    reused = safe_divide(jnp.sum(total**2) - n * k, pairs)
    return Bandwidth(n * k / d, participation_ratio(spectrum) / d, reused)
