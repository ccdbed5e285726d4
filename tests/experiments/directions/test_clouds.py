"""Point clouds: sizes, distinct one-hot points, cluster structure, refusals."""

import jax
import numpy as np
import pytest

from experiments.directions.shared.clouds import (
    clustered_cloud,
    gaussian_cloud,
    sparse_cloud,
)

KEY = jax.random.key(0)


def test_a_gaussian_cloud_has_unit_variance() -> None:
    x = np.asarray(gaussian_cloud(KEY, 400, 50))
    assert abs((x**2).mean() - 1) < 5 * np.sqrt(2 / x.size)


def test_one_hot_points_are_distinct_basis_vectors() -> None:
    x = np.asarray(sparse_cloud(KEY, 30, 40))
    np.testing.assert_array_equal(x @ x.T, np.eye(30))


def test_sparse_points_have_k_ones() -> None:
    x = np.asarray(sparse_cloud(KEY, 50, 20, n_active=3))
    assert set(np.unique(x)) == {0.0, 1.0}
    np.testing.assert_array_equal(x.sum(1), 3)
    assert len(np.unique(x, axis=0)) > 40


def test_points_of_a_cluster_are_close() -> None:
    x = np.asarray(clustered_cloud(KEY, 60, 30, n_clusters=4, spread=0.1))
    d = ((x[:, None] - x[None]) ** 2).sum(-1)
    same = np.arange(60)[:, None] % 4 == np.arange(60)[None] % 4
    assert d[same].max() < 2 < d[~same].min()
    assert abs(d[same & (d > 0)].mean() / (2 * 0.01 * 30) - 1) < 0.1


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match="n_points=0"):
        gaussian_cloud(KEY, 0, 3)
    with pytest.raises(ValueError, match="n_active=5"):
        sparse_cloud(KEY, 2, 4, n_active=5)
    with pytest.raises(ValueError, match="n_clusters=9"):
        clustered_cloud(KEY, 4, 3, n_clusters=9, spread=1.0)
    with pytest.raises(ValueError, match=r"spread=0\.0 must be above 0"):
        clustered_cloud(KEY, 4, 3, n_clusters=2, spread=0.0)
