"""Directions: every number of dimensions from one map, against one NumPy table for each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.maps import MapFamily, MapSpec, row_features
from experiments.directions.jl_capacity.readings import sphere_success
from experiments.directions.shared.by_dimension import extremes_by_dimension


def test_each_m_is_the_map_with_m_rows(rng):
    x = rng.normal(size=(11, 9)).astype(np.float32)
    spec = MapSpec(MapFamily.rademacher, 9, 12)
    features = row_features(jax.random.key(0), jnp.asarray(x), spec)
    found = extremes_by_dimension(features, jnp.asarray(x), step=3, block=4)
    i, j = np.triu_indices(11, 1)
    y = np.asarray(features, np.float64)
    for k, m in enumerate((3, 6, 9, 12)):
        image = ((y[i, :m] - y[j, :m]) ** 2).sum(1) / m
        ratio = image / ((x[i].astype(np.float64) - x[j]) ** 2).sum(1) - 1
        at_m = [found.low[k], found.high[k]]
        np.testing.assert_allclose(at_m, [ratio.min(), ratio.max()], rtol=1e-4)
    assert found.n_near == 0


def drawn_success(n_features: int, dim: int, n_active: int, trials: int) -> float:
    """Share of fresh dictionaries whose first ``n_active`` rows are read out without an error."""
    rng = np.random.default_rng(n_active)
    right = 0
    for _ in range(trials):
        v = rng.normal(size=(n_features, dim))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        found = v @ v[:n_active].sum(axis=0) > 0.5
        right += bool(found[:n_active].all() and not found[n_active:].any())
    return right / trials


@pytest.mark.parametrize("n_active", [2, 3, 4])
def test_the_law_is_that_of_random_dictionaries(n_active: int) -> None:
    trials = 1500
    drawn, law = drawn_success(160, 64, n_active, trials), sphere_success(160, 64, n_active)
    assert abs(drawn - law) < 4 * np.sqrt(law * (1 - law) / trials)
    assert 0.02 < law < 0.98, "a case that says something"
