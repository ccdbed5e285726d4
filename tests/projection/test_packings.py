"""Packings beside the bounds on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import unit_rows
from circuitax.projection.laws import random_capacity
from circuitax.projection.packings import (
    Packing,
    capacity_bound,
    coherence_bound,
    greedy_counts,
    greedy_packing,
    kabatiansky_levenshtein,
    levenshtein_bound,
    optimised_counts,
    optimised_packing,
    orthoplex_bound,
    prune,
    random_counts,
    welch_bound,
)


def coherence_of(packing: Packing) -> jax.Array:
    """``max |⟨u, v⟩|`` over distinct active vectors."""
    u = unit_rows(packing.vectors)
    both = jnp.outer(packing.active, packing.active)
    return jnp.where(jnp.triu(both, 1), jnp.abs(u @ u.T), 0).max()


def test_bounds_met_by_known_packings() -> None:
    assert welch_bound(28, 7) == pytest.approx(1 / 3)  # equiangular lines
    assert welch_bound(276, 23) == pytest.approx(1 / 5)
    assert welch_bound(6, 3) == pytest.approx(1 / np.sqrt(5))  # icosahedron
    assert levenshtein_bound(120, 8) == pytest.approx(1 / 2)  # E8
    assert levenshtein_bound(144, 16) == pytest.approx(1 / 4)  # mutually unbiased bases
    assert orthoplex_bound(144, 16) == pytest.approx(1 / 4)
    assert orthoplex_bound(136, 16) == levenshtein_bound(136, 16) == 0
    assert welch_bound(5, 5) == 0
    assert coherence_bound(120, 8) == pytest.approx(1 / 2)
    assert coherence_bound(28, 7) == pytest.approx(1 / 3)


def test_capacity_inverts_the_coherence_bounds() -> None:
    assert capacity_bound(7, 1 / 3) == pytest.approx(28)
    assert capacity_bound(8, 0.5) == pytest.approx(120)
    assert capacity_bound(16, 0.25) == pytest.approx(144)
    assert capacity_bound(10, 0.315) == 55  # orthoplex caps Welch, which allows far more
    assert np.isinf(capacity_bound(100, 0.3))
    for d, epsilon in ((12, 0.2), (12, 0.4)):
        n = capacity_bound(d, epsilon)
        np.testing.assert_allclose(coherence_bound(n, d), epsilon, rtol=1e-12)


def test_exponents_in_their_limits_and_order() -> None:
    for epsilon in (0.1, 0.3, 0.7):
        greedy = -np.log1p(-(epsilon**2)) / 2  # of Gilbert and Varshamov
        assert 0 < greedy < kabatiansky_levenshtein(epsilon)
    # At 60 degrees (kissing numbers) Kabatiansky and Levenshtein print (1/n) log2 N ≤ 0.401.
    assert kabatiansky_levenshtein(0.5) / np.log(2) == pytest.approx(0.401, abs=5e-4)
    limit = 0.5e-6 * np.log(2 * np.exp(0.5) / 1e-3)
    assert kabatiansky_levenshtein(1e-3) == pytest.approx(limit, rel=1e-5)


def test_greedy_members_keep_the_bound_and_the_set_is_nearly_maximal() -> None:
    found = greedy_packing(jax.random.key(0), 0.4, dim=6, capacity=50, n_candidates=4000, batch=32)
    size = int(found.active.sum())
    members = np.asarray(found.vectors)[:size]
    np.testing.assert_allclose(np.linalg.norm(members, axis=1), 1, rtol=1e-5)
    assert float(coherence_of(found)) <= 0.4
    # Hardly any further direction fits, and the set is far larger than six axes.
    u = np.random.default_rng(0).normal(size=(2000, 6))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    assert (np.abs(u @ members.T).max(1) <= 0.4).mean() < 0.01
    assert 7 <= size < 50


def test_optimised_packings_reach_equiangular_lines_and_respect_the_bounds() -> None:
    """Six lines in R^3 (icosahedron) and the dynamic sizes 2..8, in one compiled vmap."""
    sizes = jnp.array([3, 4, 6, 8])

    def best(n: jax.Array) -> jax.Array:
        run = jax.vmap(
            lambda k: coherence_of(optimised_packing(k, n, dim=3, capacity=8, n_steps=800))
        )
        return run(jax.random.split(jax.random.key(0), 4)).min()

    found = np.asarray(jax.jit(jax.vmap(best))(sizes), np.float64)
    # Sloane's table of line packings in R^3: 90°, 70.529°, 63.435°, 49.640°.
    known = np.cos(np.deg2rad([90, 70.5288, 63.4349, 49.6399]))
    np.testing.assert_allclose(found, known, atol=0.01)
    bounds = np.array([coherence_bound(n, 3) for n in (3, 4, 6, 8)])
    assert (found >= bounds - 1e-5).all()


def test_pruning_leaves_a_set_within_epsilon_and_keeps_what_fits() -> None:
    vectors = unit_rows(jax.random.normal(jax.random.key(3), (12, 4)))
    everything = Packing(vectors, jnp.ones(12, bool))
    found = prune(everything, 0.6)
    size = int(found.active.sum())
    assert 2 <= size < 12 and float(coherence_of(found)) <= 0.6
    again = prune(found, 0.6)
    np.testing.assert_array_equal(again.active, found.active)


DIMS, EPSILON = (5, 8), 0.4


def test_random_below_greedy_below_optimised_below_the_bound() -> None:
    key = jax.random.key(0)
    # At 0.4 the bound is finite up to d = 16.
    random = np.asarray(random_counts(key, DIMS, EPSILON, 40)).mean(1)
    greedy = np.asarray(greedy_counts(key, DIMS, EPSILON, 2, 2000)).max(1)
    optimised = np.asarray(optimised_counts(key, DIMS, EPSILON, 2, 300)).max(1)
    bound = [capacity_bound(d, EPSILON) for d in DIMS]
    assert (random < greedy).all() and (greedy <= optimised).all() and (optimised <= bound).all()
    # Sixteen lines in R^6 meet 1/3; in R^5 ten lines reach 1/3, sixteen 0.4472.
    assert optimised[0] >= 10


def test_random_counts_follow_the_birthday_law() -> None:
    found = np.asarray(random_counts(jax.random.key(1), (20, 60), EPSILON, 200))
    # Median of 200: within the 40 % and 60 % points but for five keys in a thousand.
    for row, dim in zip(found, (20, 60), strict=True):
        low, high = np.quantile(row, [0.4, 0.6])
        assert low <= float(random_capacity(dim, EPSILON)) <= high + 1
