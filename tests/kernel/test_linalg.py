"""Safe norms at zero and away from it, Grams and what is read from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from circuitax.kernel import linalg

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


def test_batch_vmap_and_gradients(rng: np.random.Generator, x64: None) -> None:
    W = jnp.asarray(rng.normal(size=(2, 3, 4)))
    for reading in (linalg.gram, linalg.cosines, linalg.coherence, linalg.participation_ratio):
        np.testing.assert_allclose(jax.jit(jax.vmap(reading))(W), jax.jit(reading)(W), rtol=1e-12)
        check_grads(jax.jit(reading), (W,), order=1, modes=["rev"], rtol=1e-6)


def test_coherence_of_one_column_is_refused() -> None:
    with pytest.raises(ValueError, match="W has 1 columns"):
        linalg.coherence(jnp.ones((3, 1)))


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
