import numpy as np
import pytest

from circuitax.superposition.polytopes import components

BIPYRAMID = np.array(
    [[1, -0.5, 0, -0.5, 0, 0], [0, 3**0.5 / 2, 0, -(3**0.5) / 2, 0, 0.01], [0, 0, 1, 0, -1, 0]]
)


def test_components_are_tegum_factors_without_ignored_features():
    assert components(BIPYRAMID) == [(0, 1, 3), (2, 4)]


def test_edge_threshold_is_on_the_cosine():
    W = np.array([[1, 0.4], [0, 2.0]])  # cosine 0.196, product 0.4
    assert components(W, edge=0.15) == [(0, 1)]
    assert components(W, edge=0.25) == [(0,), (1,)]


def test_nothing_represented_has_no_component():
    assert components(np.zeros((2, 3))) == []


def test_thresholds_are_checked():
    with pytest.raises(ValueError, match=r"edge=1\.0 must be in"):
        components(BIPYRAMID, edge=1.0)
    with pytest.raises(ValueError, match=r"least_norm=-0\.1 must be at least 0"):
        components(BIPYRAMID, least_norm=-0.1)
