"""Overlaps of directions against NumPy, and what a threshold reads out of sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import (
    coherence,
    coherence_by_count,
    decode,
    guaranteed_sparsity,
    mean_overlaps,
    overlap_shares,
    recovery,
    unit_rows,
)
from circuitax.projection.laws import overlap_tail
from circuitax.projection.packings import welch_bound


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


def test_random_directions_follow_their_law(rng: np.random.Generator) -> None:
    vectors = jnp.asarray(rng.normal(size=(600, 20)))
    bounds = np.array([0.2, 0.5])
    shares = overlap_shares(vectors, jnp.asarray(bounds))
    np.testing.assert_allclose(shares, overlap_tail(20, bounds), rtol=0.05)


def test_the_pentagon_decodes_one_feature_and_erases_pairs() -> None:
    angle = 2 * np.pi * np.arange(5) / 5
    v = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], 1))
    one = jnp.eye(5, dtype=bool)
    np.testing.assert_array_equal(decode(v, one), one)
    # v_1 + v_3 has overlap 0.191 with each of the two, 0.618 with v_2 between them.
    np.testing.assert_array_equal(
        decode(v, jnp.array([True, False, True, False, False])), [False, True, False, False, False]
    )


def test_decoding_is_certain_below_the_guaranteed_sparsity() -> None:
    v = unit_rows(jax.random.normal(jax.random.key(0), (40, 400)))
    k = guaranteed_sparsity(float(coherence(v).largest))
    assert k >= 2
    found = recovery(jax.random.key(1), v, n_active=k, n_trials=500)
    assert (int(found.exact), int(found.missed), int(found.invented)) == (500, 0, 0)
    assert guaranteed_sparsity(0.25) == 1 and guaranteed_sparsity(0.24) == 2


def test_counts_of_failures_agree_with_numpy() -> None:
    n, m, k, trials = 200, 64, 3, 2000
    v = jax.random.normal(jax.random.key(2), (n, m))
    found = recovery(jax.random.key(3), v, n_active=k, n_trials=trials)
    rng = np.random.default_rng(0)
    unit = np.asarray(unit_rows(v), np.float64)
    failures = 0
    for _ in range(trials):
        on = np.zeros(n, bool)
        on[rng.choice(n, k, replace=False)] = True
        failures += not np.array_equal(unit @ (unit.T @ on) > 0.5, on)
    rate, ours = failures / trials, 1 - int(found.exact) / trials
    assert abs(rate - ours) < 5 * np.sqrt(2 * 0.25 / trials)
