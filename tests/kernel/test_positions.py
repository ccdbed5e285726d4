"""Sinusoids and rotations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.positions import rotate, sinusoidal


def test_sinusoidal_entries(x64: None) -> None:
    got = np.asarray(sinusoidal(jnp.arange(5), 6, jnp.dtype("float64")))
    for t in range(5):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            assert got[t, 2 * i] == pytest.approx(np.sin(angle), abs=1e-12)
            assert got[t, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-12)


def test_sinusoidal_inner_products_depend_on_the_offset(x64: None) -> None:
    vectors = np.asarray(sinusoidal(jnp.arange(12), 8, jnp.dtype("float64")))
    gram = vectors @ vectors.T
    for offset in range(4):
        diagonal = np.diagonal(gram, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-12)


def test_rotate_is_a_complex_multiplication(x64: None, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 5, 6))
    index = np.array([0, 3, 4, 7, 11])
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    turned = pairs * np.exp(1j * index[:, None] / 10_000 ** (np.arange(0, 6, 2) / 6))
    got = np.asarray(rotate(jnp.asarray(x), jnp.asarray(index)))
    np.testing.assert_allclose(got[..., 0::2], turned.real, atol=1e-12)
    np.testing.assert_allclose(got[..., 1::2], turned.imag, atol=1e-12)


def test_rotary_scores_depend_on_offsets_only(x64: None, rng: np.random.Generator) -> None:
    q, k = (jnp.asarray(rng.standard_normal((2, 5, 6))) for _ in range(2))

    def scores(shift: int) -> jax.Array:
        index = shift + jnp.arange(5)
        return jnp.einsum("htk,hsk->hts", rotate(q, index), rotate(k, index))

    np.testing.assert_allclose(scores(0), scores(17), atol=1e-12)
    unturned = jnp.einsum("htk,hsk->hts", q, k)
    assert np.abs(np.asarray(scores(0) - unturned)).max() > 0.1


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 2e-2), ("float16", 3e-3)])
def test_half_precision_tells_late_positions_apart(
    dtype: str, tolerance: float, rng: np.random.Generator
) -> None:
    index = jnp.arange(2000, 2005)
    x = jnp.asarray(rng.standard_normal((2, 5, 6)), dtype)
    turned = rotate(x, index)
    assert turned.dtype == dtype
    want = rotate(x.astype(jnp.float32), index)
    np.testing.assert_allclose(turned.astype(jnp.float32), want, atol=2 * tolerance)
    vectors = sinusoidal(index, 6, jnp.dtype(dtype))
    assert vectors.dtype == dtype
    want = sinusoidal(index, 6, jnp.dtype("float32"))
    np.testing.assert_allclose(vectors.astype(jnp.float32), want, atol=tolerance)
