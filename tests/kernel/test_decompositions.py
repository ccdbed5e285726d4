"""Decompositions one by one are JAX's own, in value and derivative, at any batch."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import linalg as ours

CASES = {
    "eigenvalues": (ours.eigenvalues, jnp.linalg.eigvals),
    "symmetric_eigen": (ours.symmetric_eigen, jnp.linalg.eigh),
    "symmetric_eigenvalues": (ours.symmetric_eigenvalues, jnp.linalg.eigvalsh),
    "orthonormal": (ours.orthonormal, jnp.linalg.qr),
    "triangle": (ours.triangle, lambda M: jnp.linalg.qr(M, mode="r")),
    "singular": (ours.singular, lambda M: jnp.linalg.svd(M, compute_uv=False)),
}


def matrices(name: str, *batch: int) -> jax.Array:
    M = jax.random.normal(jax.random.key(len(batch)), (*batch, 4, 4))
    return M + jnp.matrix_transpose(M) if name.startswith("symmetric") else M


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
def test_values(name: str, batch: tuple[int, ...], x64: None) -> None:
    mine, theirs = CASES[name]
    M = matrices(name, *batch)
    expected = jax.tree.leaves(theirs(M))
    mapped: Callable[[jax.Array], Any] = mine
    for _ in batch:
        mapped = jax.vmap(mapped)
    for call in (mine, jax.jit(mine), mapped, jax.jit(mapped)):
        for got, leaf in zip(jax.tree.leaves(call(M)), expected, strict=True):
            np.testing.assert_allclose(got, leaf, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str, x64: None) -> None:
    mine, theirs = CASES[name]
    M = matrices(name, 2, 3)

    def cubes(decompose: Callable[[jax.Array], Any]) -> Callable[[jax.Array], jax.Array]:
        # Vectors have free signs and eigenvalues no order: neither shows in even powers of these.
        return lambda M: sum(jnp.sum(jnp.abs(x) ** 4) for x in jax.tree.leaves(decompose(M)))

    expected = jax.grad(cubes(theirs))(M)
    got = jax.jit(jax.grad(cubes(mine)))(M)
    np.testing.assert_allclose(got, expected, atol=1e-9)
    mapped = jax.vmap(jax.grad(cubes(mine)))(M)
    np.testing.assert_allclose(mapped, expected, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_compiled_maps(name: str, x64: None) -> None:
    # The derivative of a compiled function, where axes of maps in maps were once exchanged.
    mine, theirs = CASES[name]
    M = matrices(name, 2, 3)

    def weighed(decompose: Callable[[jax.Array], Any]) -> Callable[[jax.Array], jax.Array]:
        # A factor of its own for each matrix, which an exchange of axes would show.
        def total(M: jax.Array) -> jax.Array:
            sizes = [jnp.abs(x).reshape(6, -1) ** 4 for x in jax.tree.leaves(decompose(M))]
            return sum(jnp.sum(jnp.arange(1, 7) @ size) for size in sizes)

        return total

    expected = jax.grad(weighed(theirs))(M)
    for mapped in (mine, jax.vmap(mine), jax.vmap(jax.vmap(mine))):
        got = jax.grad(jax.jit(weighed(mapped)))(M)
        np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="LAPACK is what a CPU calls")
def test_batches_reach_lapack_one_matrix_at_a_time() -> None:
    # Batched calls block a thread of XLA's pool: two at once may wait for each other for ever.
    M = matrices("singular", 5)
    text = jax.jit(lambda M: (ours.singular(M), ours.eigenvalues(M))).lower(M).as_text()
    calls = [line for line in text.splitlines() if "lapack_" in line]
    assert calls and not any("5x4x4" in line for line in calls)
    batched = jax.jit(jnp.linalg.eigvals).lower(M).as_text()
    assert any("5x4x4" in line for line in batched.splitlines() if "lapack_" in line)
