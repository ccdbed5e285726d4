"""Means and tails of overlaps, against NumPy over all pairs and against the law of random ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import mean_overlaps, overlap_shares
from circuitax.projection.laws import overlap_tail
from circuitax.projection.packings import welch_bound


def cosines_of_pairs(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(len(vectors), 1)]


def test_means_and_shares_are_those_of_all_pairs(rng: np.random.Generator) -> None:
    vectors = rng.normal(size=(23, 4)) + np.array([1.0, 0, 0, 0])
    cosines = cosines_of_pairs(vectors)
    bounds = np.array([0.0, 0.3, 0.8, 1.0])
    with jax.enable_x64(True):
        means = jax.jit(mean_overlaps)(jnp.asarray(vectors))
        shares = overlap_shares(jnp.asarray(vectors), jnp.asarray(bounds), block=8)
        whole = overlap_shares(jnp.asarray(vectors), jnp.asarray(bounds))
    assert float(means.mean) == pytest.approx(cosines.mean(), rel=1e-12)
    assert float(means.mean_square) == pytest.approx((cosines**2).mean(), rel=1e-12)
    wanted = [(np.abs(cosines) > bound).mean() for bound in bounds]
    np.testing.assert_allclose(shares, wanted, rtol=1e-12)
    np.testing.assert_allclose(whole, wanted, rtol=1e-12)
    assert 0 < wanted[2] < wanted[1] < 1


def test_a_tight_frame_meets_the_welch_bound() -> None:
    angles = 2 * np.pi * np.arange(5) / 5
    with jax.enable_x64(True):
        frame = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1) * 3)
        found = mean_overlaps(frame)
        assert float(found.mean_square) == pytest.approx(float(welch_bound(5, 2)) ** 2, rel=1e-12)
        assert float(found.mean) == pytest.approx(-1 / 4, rel=1e-12)
        with pytest.raises(ValueError, match="1 rows, must have at least 2"):
            mean_overlaps(frame[:1])


def test_random_directions_follow_their_law(rng: np.random.Generator) -> None:
    vectors = jnp.asarray(rng.normal(size=(600, 20)))
    bounds = np.array([0.2, 0.5])
    shares = overlap_shares(vectors, jnp.asarray(bounds))
    np.testing.assert_allclose(shares, overlap_tail(20, bounds), rtol=0.05)
