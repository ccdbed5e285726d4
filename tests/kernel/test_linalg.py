"""Norms and their gradients at zero, Gram matrices, and LAPACK one matrix at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import linalg
from circuitax.kernel import linalg as ours

VECTORS = jnp.array([[3.0, 4.0], [0.0, 0.0], [1.0, -1.0]])


def test_norm_and_its_gradient_at_zero() -> None:
    np.testing.assert_allclose(linalg.norm(VECTORS), [5.0, 0.0, 2**0.5], rtol=1e-6)
    gradient = jax.jit(jax.grad(lambda v: linalg.norm(v).sum()))(VECTORS)
    np.testing.assert_allclose(gradient, [[0.6, 0.8], [0, 0], [0.5**0.5, -(0.5**0.5)]], rtol=1e-6)


def test_safe_sqrt_clips_rounding_below_zero() -> None:
    value, gradient = jax.value_and_grad(linalg.safe_sqrt)(jnp.array(-1e-9))
    assert value == 0 and gradient == 0


def test_safe_divide_by_zero_is_zero_with_zero_gradient() -> None:
    top, bottom = jnp.array([1.0, 6.0]), jnp.array([0.0, 3.0])
    np.testing.assert_array_equal(linalg.safe_divide(top, bottom), [0.0, 2.0])
    gradients = jax.grad(lambda t, b: linalg.safe_divide(t, b).sum(), argnums=(0, 1))(top, bottom)
    np.testing.assert_allclose(gradients[0], [0.0, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(gradients[1], [0.0, -2 / 3], rtol=1e-6)


def test_cosine_gram_and_coherence_by_hand() -> None:
    W = jnp.array([[1.0, 0.0, 3.0, 0.0], [0.0, 2.0, 4.0, 0.0]])  # the last feature is absent
    np.testing.assert_allclose(
        linalg.gram(W), [[1, 0, 3, 0], [0, 4, 8, 0], [3, 8, 25, 0], [0, 0, 0, 0]]
    )
    np.testing.assert_allclose(
        linalg.cosines(W),
        [[1, 0, 0.6, 0], [0, 1, 0.8, 0], [0.6, 0.8, 1, 0], [0, 0, 0, 0]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(linalg.coherence(W), 0.8, rtol=1e-6)
    np.testing.assert_allclose(linalg.coherence(-W[:, :3] * jnp.array([[1.0, -1.0, 1.0]])), 0.8)
    np.testing.assert_allclose(
        linalg.cosine(VECTORS, VECTORS[::-1]), [-1 / 50**0.5, 0, -1 / 50**0.5], rtol=1e-6
    )


def test_participation_ratio_counts_equal_weights() -> None:
    weights = jnp.array([[2.0, 2.0, 2.0, 0.0], [5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(linalg.participation_ratio(weights), [3.0, 1.0, 0.0], rtol=1e-6)


def test_norms_and_cosines_of_half_precision_do_not_overflow(rng: np.random.Generator) -> None:
    x, y = jnp.asarray(900 * rng.standard_normal((2, 3, 20)), jnp.float16)
    for f, given in ((linalg.norm, (x,)), (linalg.cosine, (x, y))):
        want = f(*(part.astype(jnp.float32) for part in given))
        np.testing.assert_allclose(f(*given).astype(jnp.float32), want, rtol=1e-3)


def test_scaled_to_one_divides_by_an_exact_power_of_two() -> None:
    W = jnp.array([[[3e-12, -5e-12]], [[0.0, 0.0]], [[7.0, 1e30]], [[1.0, -0.25]]])
    scaled, c = jax.jit(linalg.scaled_to_one)(W)
    np.testing.assert_array_equal(np.frexp(np.asarray(c))[0], 0.5)
    np.testing.assert_array_equal(scaled * c[:, None, None], W)  # to the last bit
    largest = np.abs(scaled).max((1, 2))
    assert ((largest >= 0.5) & (largest < 1))[[0, 2, 3]].all() and largest[1] == 0
    half, c = linalg.scaled_to_one(W[3].astype(jnp.float16))
    assert half.dtype == c.dtype == jnp.float32
    slope = jax.grad(lambda W: linalg.scaled_to_one(W)[0].sum())(W)
    np.testing.assert_array_equal(
        slope, np.broadcast_to(1 / np.asarray(linalg.scaled_to_one(W)[1])[:, None, None], W.shape)
    )


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
