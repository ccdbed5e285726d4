"""Read and write subspaces of heads in the stream: their overlaps, and the stream's bandwidth.

Unlike composition scores, these measures ignore how strongly a direction is used, and they do not
depend on the basis inside a head. They are defined for maps of full column rank only: a map that is
numerically rank-deficient has fewer directions than columns, and an orthonormal basis of "its
column space" would contain arbitrary ones.

S4 are the notes on the framework paper (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.kernel.linalg import (
    orthonormal,
    participation_ratio,
    safe_divide,
    singular,
    symmetric_eigenvalues,
)


class Overlap(NamedTuple):
    """Overlap of pairs of subspaces, and its value for random ones of equal sizes.

    Attributes:
        value: ``Σ cos² / min(a, b)`` over the principal angles, in [0, 1].
        null: ``max(a, b) / d``, the mean for Haar-random subspaces.
        std: Their standard deviation; ``(value - null) / std`` is a z-score.
    """

    value: Float[Array, "*pairs"]
    null: float
    std: float


def basis(W: Float[Array, "*batch d_model k"], name: str = "W") -> Float[Array, "*batch d_model k"]:
    """Orthonormal columns with the span of W's columns."""
    d_model, k = W.shape[-2:]
    if not 1 <= k <= d_model:
        raise ValueError(f"{name} has k={k} columns, must have at least 1 and at most {d_model=}")
    columns, triangle = orthonormal(W)
    independent = _independent(jax.lax.stop_gradient(triangle), d_model)
    if not isinstance(independent, jax.core.Tracer) and not independent.all():
        raise ValueError(
            f"{name} has linearly dependent columns, must have full column rank k={k}: pass a "
            "basis of its column space (such as its left singular vectors)"
        )
    return jnp.where(independent[..., None, None], columns, jnp.nan)


def _independent(triangle: Float[Array, "*batch k k"], d_model: int) -> Bool[Array, "*batch"]:
    sizes = singular(triangle)
    return sizes[..., -1] > d_model * jnp.finfo(sizes.dtype).eps * sizes[..., 0]


def overlap(x: Float[Array, "*batch d_model a"], y: Float[Array, "*batch d_model_y b"]) -> Overlap:
    """Share of the smaller column space that lies in the larger one.

    ``‖B_xᵀ B_y‖² / min(a, b)`` with orthonormal bases, which is the projection kernel.

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
    """Cosines of the principal angles between two column spaces, in falling order."""
    if x.shape[-2] != y.shape[-2]:
        raise ValueError(f"y has d_model={y.shape[-2]}, must have that of x, {x.shape[-2]}")
    inner = jnp.matrix_transpose(basis(x, "x")) @ basis(y, "y")
    return jnp.clip(singular(inner), 0, 1)


class Bandwidth(NamedTuple):
    """Bandwidth of the stream: use and reuse of its dimensions by the writers of a model.

    Attributes:
        written: Dimensions all writers have together, over d_model: above 1 they must share.
        effective: Participation ratio of the mean projector's spectrum, over d_model; 1 if used
            evenly.
        reused: Mean overlap between two different writers, in [0, 1]; ``k / d_model`` at random.
    """

    written: float
    effective: Float[Array, ""]
    reused: Float[Array, ""]


def bandwidth(W_O: Float[Array, "*n_writers k d_model"]) -> Bandwidth:
    """Use of the residual stream by heads (or groups of neurons), from their write spaces.

    Source: S4 and the framework paper, "the residual stream has limited bandwidth".
    """
    if W_O.ndim != 3:
        raise ValueError(f"W_O has shape {W_O.shape}, must be [n_writers, k, d_model]")
    n, k, d = W_O.shape
    B = basis(jnp.matrix_transpose(W_O), "the transpose of W_O")
    total = jnp.einsum("nik,njk->ij", B, B)
    spectrum = jnp.clip(symmetric_eigenvalues(total), 0)
    # Σ_{m≠n} ‖B_mᵀ B_n‖² is ‖total‖² less the n diagonal terms of k each
    pairs = jnp.asarray(n * (n - 1) * k, W_O.dtype)
    reused = safe_divide(jnp.sum(total**2) - n * k, pairs)
    return Bandwidth(n * k / d, participation_ratio(spectrum) / d, reused)
