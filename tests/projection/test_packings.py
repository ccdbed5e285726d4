"""Packings: constraints kept, known optima reached, bounds never beaten."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import coherence, unit_rows
from circuitax.projection.packings import (
    Packing,
    coherence_bound,
    greedy_packing,
    optimised_packing,
    packing_coherence,
    prune,
    welch_bound,
)


def test_greedy_members_keep_the_bound_and_the_set_is_nearly_maximal() -> None:
    found = greedy_packing(jax.random.key(0), 0.4, dim=6, capacity=50, n_candidates=4000, batch=32)
    size = int(found.active.sum())
    members = np.asarray(found.vectors)[:size]
    np.testing.assert_allclose(np.linalg.norm(members, axis=1), 1, rtol=1e-5)
    assert float(packing_coherence(found)) <= 0.4
    # Hardly any further direction fits, and the set is far larger than six axes.
    u = np.random.default_rng(0).normal(size=(2000, 6))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    assert (np.abs(u @ members.T).max(1) <= 0.4).mean() < 0.01
    assert 7 <= size < 50


def test_a_full_greedy_set_stops_at_its_capacity() -> None:
    found = greedy_packing(jax.random.key(0), 0.9, dim=6, capacity=5, n_candidates=640, batch=32)
    assert int(found.active.sum()) == 5 and float(packing_coherence(found)) <= 0.9


def test_optimised_packings_reach_equiangular_lines_and_respect_the_bounds() -> None:
    """Six lines in R^3 (icosahedron) and the dynamic sizes 2..8, in one compiled vmap."""
    sizes = jnp.array([3, 4, 6, 8])

    def best(n: jax.Array) -> jax.Array:
        run = jax.vmap(
            lambda k: packing_coherence(optimised_packing(k, n, dim=3, capacity=8, n_steps=800))
        )
        return run(jax.random.split(jax.random.key(0), 4)).min()

    found = np.asarray(jax.jit(jax.vmap(best))(sizes), np.float64)
    # Sloane's table of line packings in R^3: 90°, 70.529°, 63.435°, 49.640°.
    known = np.cos(np.deg2rad([90, 70.5288, 63.4349, 49.6399]))
    np.testing.assert_allclose(found, known, atol=0.01)
    bounds = np.array([coherence_bound(n, 3) for n in (3, 4, 6, 8)])
    assert (found >= bounds - 1e-5).all()


def test_unused_dimensions_stay_empty_and_signed_packings_are_spherical_codes() -> None:
    found = optimised_packing(
        jax.random.key(0), 6, dim=5, capacity=8, n_steps=800, signed=True, n_dims=3
    )
    vectors = np.asarray(found.vectors)
    assert not vectors[:, 3:].any() and not vectors[6:].any()
    # Six points on a sphere: the octahedron, at 90 degrees, where lines reach only 63.4.
    gram = vectors[:6] @ vectors[:6].T - 2 * np.eye(6)
    assert gram.max() == pytest.approx(0, abs=0.02)
    greedy = greedy_packing(
        jax.random.key(0), 0.5, dim=5, capacity=20, n_candidates=640, batch=32, n_dims=2
    )
    assert not np.asarray(greedy.vectors)[:, 2:].any()
    assert int(greedy.active.sum()) in (2, 3)  # lines in the plane at 60 degrees or more


def test_pruning_leaves_a_set_within_epsilon_and_keeps_what_fits() -> None:
    vectors = unit_rows(jax.random.normal(jax.random.key(3), (12, 4)))
    everything = Packing(vectors, jnp.ones(12, bool))
    found = prune(everything, 0.6)
    size = int(found.active.sum())
    assert 2 <= size < 12 and float(packing_coherence(found)) <= 0.6
    again = prune(found, 0.6)
    np.testing.assert_array_equal(again.active, found.active)


def test_random_directions_obey_the_mean_square_bound_of_welch() -> None:
    x = jax.random.normal(jax.random.key(1), (40, 8))
    assert float(coherence(x).mean_square) >= welch_bound(40, 8) ** 2


def test_refusals_name_the_argument() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="dim=1"):
        optimised_packing(key, 3, dim=1, capacity=4)
    with pytest.raises(ValueError, match="capacity=0"):
        greedy_packing(key, 0.3, dim=4, capacity=0, n_candidates=5)
    with pytest.raises(ValueError, match="n_candidates=0"):
        greedy_packing(key, 0.3, dim=4, capacity=3, n_candidates=0)
