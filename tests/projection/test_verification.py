"""Failing maps and corollary counts against loops over maps in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import MapFamily, MapSpec, project
from circuitax.projection.theorem import (
    Bounds,
    corollary_28,
    cosine_hypothesis,
    distance_ratios,
    failing_maps,
)

SPEC = MapSpec(MapFamily.gaussian, 12, 40)
KEYS = member_keys(jax.random.key(3), 6)
POINTS = jax.random.normal(jax.random.key(0), (9, 12)) * jnp.arange(1.0, 10.0)[:, None]


def test_failing_maps_are_those_with_a_pair_outside() -> None:
    bounds = (Bounds(0.6, 1.4), Bounds(0.5, 1.6), Bounds(0.9, 9.0))
    found = failing_maps(KEYS, POINTS, SPEC, bounds)
    for k, key in enumerate(KEYS):
        ratios = distance_ratios(np.asarray(POINTS), np.asarray(project(key, POINTS, SPEC)))
        expected = [((ratios < low) | (ratios > high)).any() for low, high in bounds]
        np.testing.assert_array_equal(found[k], expected)
    assert found.any() and not found.all()


def test_S0_corollary_28_at_the_epsilon_of_each_map() -> None:
    found = corollary_28(KEYS, POINTS, SPEC)
    unit = np.asarray(cosine_hypothesis(POINTS))
    for k, key in enumerate(KEYS):
        images = np.asarray(project(key, jnp.asarray(unit), SPEC), np.float64)
        epsilon = np.abs(distance_ratios(unit, images) - 1).max()
        np.testing.assert_allclose(found.epsilon[k], epsilon, rtol=1e-4)
        u, v = unit[1:].astype(np.float64), images[1:]
        upper = np.triu_indices(9, 1)
        inner = np.abs(v @ v.T - u @ u.T)[upper]
        w = v / np.linalg.norm(v, axis=1, keepdims=True)
        cosine = np.abs(w @ w.T - u @ u.T)[upper]
        np.testing.assert_allclose(found.inner_share[k], inner.max() / (3 * epsilon), rtol=1e-3)
        share = cosine.max() * (1 - epsilon) / (4 * epsilon)
        np.testing.assert_allclose(found.cosine_share[k], share, rtol=1e-3)
    assert not found.inner.any() and not found.cosine.any()


def test_coinciding_points_and_hopeless_maps_are_refused() -> None:
    with pytest.raises(ValueError, match="points must be distinct"):
        failing_maps(KEYS, POINTS.at[1].set(POINTS[0]), SPEC, (Bounds(0.5, 1.5),))
    with pytest.raises(ValueError, match="points must be distinct"):
        corollary_28(KEYS, POINTS.at[1].set(2 * POINTS[0]), SPEC)
    with pytest.raises(ValueError, match=r"epsilon=.* must be in \(0, 1\)"):
        corollary_28(KEYS, POINTS, MapSpec(MapFamily.gaussian, 12, 2))
