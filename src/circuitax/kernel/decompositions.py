"""LAPACK's decompositions, one matrix at a time on a CPU.

On CPUs jaxlib (0.10) splits a batch over the threads of XLA's pool and waits inside one of them, so
that two decompositions in one program can deadlock. Batches go through a loop instead, which is as
fast at the sizes of heads. Derivatives are JAX's own.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
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

    return each


def _reshaped(found: Any, n_axes: int, batch: tuple[int, ...]) -> Any:
    """All arrays with other axes in the place of their first ones."""
    return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[n_axes:]), found)
