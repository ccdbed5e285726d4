"""Coherence against NumPy; prefixes; zero rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import coherence, coherence_by_count, unit_rows


def test_coherence_agrees_with_numpy(rng: np.random.Generator) -> None:
    x = rng.normal(size=(17, 5)).astype(np.float32)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    g = (u @ u.T)[np.triu_indices(17, 1)]
    found = coherence(jnp.asarray(x), block=6)
    np.testing.assert_allclose(found, [np.abs(g).max(), g.max(), (g**2).mean()], rtol=1e-5)
    by_count = np.asarray(coherence_by_count(jnp.asarray(x)))
    for n in (2, 9, 17):
        expected = np.abs(u[:n] @ u[:n].T)[np.triu_indices(n, 1)].max()
        np.testing.assert_allclose(by_count[n - 1], expected, rtol=1e-5)
    assert by_count[0] == 0


def test_the_pentagon_by_hand() -> None:
    angle = 2 * np.pi * np.arange(5) / 5
    found = coherence(jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], 1)))
    np.testing.assert_allclose(found.largest, -np.cos(4 * np.pi / 5), rtol=1e-5)
    np.testing.assert_allclose(found.largest_signed, np.cos(2 * np.pi / 5), rtol=1e-5)
    np.testing.assert_allclose(found.mean_square, 3 / 8, rtol=1e-5)  # (N − d)/(d (N − 1)): tight


def test_a_zero_row_overlaps_nothing_and_has_a_finite_gradient() -> None:
    x = jnp.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(coherence(x).largest, np.sqrt(0.5), rtol=1e-6)
    gradient = jax.grad(lambda z: unit_rows(z)[:, 0].sum())(x)
    assert np.isfinite(np.asarray(gradient)).all()
    with pytest.raises(ValueError, match="n_points=1"):
        coherence(x[:1])
