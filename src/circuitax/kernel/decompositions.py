"""LAPACK's decompositions, one matrix at a time on a CPU.

On CPUs jaxlib (0.10) splits a batch over the threads of XLA's pool and waits inside one of them, so
that two decompositions in one program can deadlock. Batches go through a loop instead, which is as
fast at the sizes of heads. Derivatives are JAX's own.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Complex, Float


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

    if jax.default_backend() != "cpu":
        return decompose
    # `sequential_vmap` alone has no reverse mode.
    one = jax.custom_jvp(sequential_vmap(decompose))
    one.defjvp(lambda primals, tangents: jax.jvp(decompose, primals, tangents))

    def each(M: Array) -> Any:
        mapped: Callable[[Array], Any] = one
        for _ in range(M.ndim - 2):
            mapped = jax.vmap(mapped)
        return mapped(M)

    return each
