"""Norms whose gradients are finite at zero, Gram matrices, and LAPACK's decompositions.

On CPUs jaxlib (0.10) splits a batch over the threads of XLA's pool and waits inside one of them, so
that two decompositions in one program can deadlock. There batches go through a loop, which is as
fast at the sizes of heads; the platform is known where a program is lowered. Derivatives are JAX's.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Complex, Float


def at_least_single(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Half precision as single, for squares, exponentials, angles and long sums; others as is."""
    half = jnp.issubdtype(x.dtype, jnp.floating) and jnp.finfo(x.dtype).bits < 32
    return x.astype(jnp.float32) if half else x


def safe_sqrt(square: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``√max(square, 0)``, with gradient 0 instead of ∞ where ``square ≤ 0``."""
    positive = square > 0
    # the inner `where` keeps the derivative of the branch not taken finite
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def safe_divide(
    numerator: Float[Array, "*#shape"], denominator: Float[Array, "*#shape"]
) -> Float[Array, "*shape"]:
    """``numerator / denominator``, and 0 with gradient 0 where the denominator is 0."""
    zero = denominator == 0
    return jnp.where(zero, 0, numerator / jnp.where(zero, 1, denominator))


def norm(vectors: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """Euclidean norm over the last axis; its gradient at the zero vector is 0."""
    return safe_sqrt(jnp.sum(at_least_single(vectors) ** 2, axis=-1)).astype(vectors.dtype)


def cosine(x: Float[Array, "*batch d"], y: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """``⟨x, y⟩ / (‖x‖ ‖y‖)`` over the last axis, in [-1, 1]; 0 if either vector is 0."""
    x, y = at_least_single(x), at_least_single(y)
    return safe_divide(jnp.sum(x * y, axis=-1), norm(x) * norm(y))


def scaled_to_one(
    W: Float[Array, "*batch n m"],
) -> tuple[Float[Array, "*batch n m"], Float[Array, "*batch"]]:
    """``(W / c, c)`` with c the power of two that brings the largest |entry| of W into [1/2, 1)."""
    W = W.astype(jnp.promote_types(W.dtype, jnp.float32))
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(W), axis=(-2, -1), initial=0))
    usual = (largest >= jnp.finfo(W.dtype).tiny) & jnp.isfinite(largest)
    largest = jnp.where(usual, largest, 0.5)
    c = largest / jnp.frexp(largest)[0]  # the quotient is a power of two, hence exact
    return W / c[..., None, None], c


def gram(W: Float[Array, "*batch d n"]) -> Float[Array, "*batch n n"]:
    """``G = Wᵀ W``: inner products of the columns, such as a toy model's features."""
    return jnp.matrix_transpose(W) @ W


def cosines(W: Float[Array, "*batch d n"]) -> Float[Array, "*batch n n"]:
    """Cosines between the columns of W; the row and column of a zero vector are 0."""
    lengths = norm(jnp.matrix_transpose(W))
    return safe_divide(gram(W), lengths[..., :, None] * lengths[..., None, :])


def coherence(W: Float[Array, "*batch d n"]) -> Float[Array, "*batch"]:
    """``max_{i≠j} |cos(W_i, W_j)|`` over the columns, in [0, 1]; needs at least two columns."""
    n = W.shape[-1]
    angles = jnp.abs(cosines(W))
    upper = angles[..., *jnp.triu_indices(n, k=1)]
    return jnp.max(upper, axis=-1)


def participation_ratio(weights: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
    """``(Σ w)² / Σ w²`` of non-negative weights: their effective number, in [1, n]."""
    return safe_divide(jnp.sum(weights, axis=-1) ** 2, jnp.sum(weights**2, axis=-1))


def eigenvalues(M: Float[Array, "*batch n n"]) -> Complex[Array, "*batch n"]:
    """`jax.numpy.linalg.eigvals`; on CPUs and NVIDIA GPUs only."""
    return _one_by_one("eigvals")(M)


def symmetric_eigen(
    M: Float[Array, "*batch n n"],
) -> tuple[Float[Array, "*batch n"], Float[Array, "*batch n n"]]:
    """`jax.numpy.linalg.eigh`: eigenvalues in rising order, eigenvectors as columns."""
    values, vectors = _one_by_one("eigh")(M)
    return values, vectors


def symmetric_eigenvalues(M: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """`jax.numpy.linalg.eigvalsh`, in rising order."""
    return _one_by_one("eigvalsh")(M)


def orthonormal(
    M: Float[Array, "*batch m n"],
) -> tuple[Float[Array, "*batch m k"], Float[Array, "*batch k n"]]:
    """`jax.numpy.linalg.qr`: Q with orthonormal columns, and R."""
    q, r = _one_by_one("qr")(M)
    return q, r


def triangle(M: Float[Array, "*batch m n"]) -> Float[Array, "*batch k n"]:
    """The R of `orthonormal` alone."""
    return _one_by_one("qr", mode="r")(M)


def singular(M: Float[Array, "*batch m n"]) -> Float[Array, "*batch k"]:
    """Singular values, in falling order."""
    return _one_by_one("svd", compute_uv=False)(M)


@cache  # so that equal calls share one compilation
def _one_by_one(name: str, **options: Any) -> Callable[[Array], Any]:
    def decompose(M: Array) -> Any:
        return getattr(jnp.linalg, name)(M, **options)

    @custom_vmap
    def loop(matrices: Array) -> Any:
        return jax.lax.map(decompose, matrices)

    @loop.def_vmap
    def loop_of_batches(size: int, batched: list[bool], matrices: Array) -> tuple[Any, Any]:
        found = _reshaped(
            loop(_reshaped(matrices, 2, (math.prod(matrices.shape[:2]),))), 1, matrices.shape[:2]
        )
        return found, jax.tree.map(lambda _: True, found)

    # `custom_vmap` alone has no reverse mode. Under a `vmap`, JAX takes axes of the function for
    # those of its derivative: both have the batch in front, which loops in loops would not.
    one = jax.custom_jvp(loop)
    one.defjvp(lambda primals, tangents: jax.jvp(decompose, primals, tangents))

    def each(M: Array) -> Any:
        batch = M.shape[:-2]
        return _reshaped(one(_reshaped(M, len(batch), (math.prod(batch),))), 1, batch)

    return lambda M: jax.lax.platform_dependent(M, cpu=each, default=decompose)


def _reshaped(found: Any, n_axes: int, batch: tuple[int, ...]) -> Any:
    """All arrays with other axes in the place of their first ones."""
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[n_axes:]), found)
