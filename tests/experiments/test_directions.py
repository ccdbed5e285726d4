"""Directions: every number of dimensions from one map, against one NumPy table for each."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.projection.maps import MapFamily, MapSpec, row_features
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
