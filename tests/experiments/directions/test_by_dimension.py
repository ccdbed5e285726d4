"""Every m from one map: against one NumPy table for each m."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.maps import EntryLaw, MapFamily, MapSpec, row_features
from experiments.directions.shared.by_dimension import extremes_by_dimension, orthonormal_features


def test_each_m_is_the_map_with_m_rows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(11, 9)).astype(np.float32)
    spec = MapSpec(MapFamily.rademacher, 9, 12)
    features = row_features(jax.random.key(0), jnp.asarray(x), spec)
    found = extremes_by_dimension(features, jnp.asarray(x), step=3, block=4)
    i, j = np.triu_indices(11, 1)
    y = np.asarray(features, np.float64)
    for k, m in enumerate((3, 6, 9, 12)):
        image = ((y[i, :m] - y[j, :m]) ** 2).sum(1) / m
        ratio = image / ((x[i].astype(np.float64) - x[j]) ** 2).sum(1) - 1
        np.testing.assert_allclose(
            [found.low[k], found.high[k]], [ratio.min(), ratio.max()], rtol=1e-4
        )
    assert found.n_near == 0


def test_one_hot_points_need_no_points() -> None:
    features = orthonormal_features(jax.random.key(1), EntryLaw.gaussian, 10, 6)
    short = extremes_by_dimension(features, step=2, block=4)
    full = extremes_by_dimension(features, jnp.eye(10), step=2, block=4)
    np.testing.assert_allclose(short.low, full.low, atol=1e-5)
    np.testing.assert_allclose(short.high, full.high, atol=1e-5)
    spec = MapSpec(MapFamily.gaussian, 10, 6)
    np.testing.assert_allclose(
        features, row_features(jax.random.key(1), jnp.eye(10), spec), atol=1e-6
    )


def test_pairs_too_close_are_counted_and_bad_steps_refused() -> None:
    x = jnp.eye(4).at[1].set(jnp.array([1.0, 1e-4, 0, 0]))
    assert extremes_by_dimension(x, x).n_near == 1
    with pytest.raises(ValueError, match="step=3 must divide the number of rows, 4"):
        extremes_by_dimension(x, step=3)
