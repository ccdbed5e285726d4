"""Smallest sufficient m with its binomial interval."""

import numpy as np
import pytest

from circuitax.projection.tails import smallest_dim, succeeds

DIMS = np.array([10, 20, 30, 40])


def table(counts: list[int], n: int = 20) -> np.ndarray:
    return np.arange(n)[:, None] < np.array(counts)[None, :]


def test_smallest_dim_and_its_interval_by_hand() -> None:
    # Rates 0, 0.5, 0.95, 1; at n = 20 the interval of 10/20 ends at 0.73, of 20/20 begins at 0.83.
    found = smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.1)
    assert found.dim == 30 and found.low == 30 and np.isnan(found.high)
    found = smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.3)
    assert (found.dim, found.low, found.high) == (30, 20, 30)
    # The exact interval of 10/20 ends at 0.728, Wilson's at 0.701; that of 50 % at 0.598.
    assert smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.28).low == 20
    assert smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.28, level=0.5).low == 30


def test_a_lucky_m_does_not_count() -> None:
    assert smallest_dim(table([0, 20, 10, 20]), DIMS, delta=0.1).dim == 40
    assert np.isnan(smallest_dim(table([0, 0, 0, 1]), DIMS, delta=0.1).dim)


def test_success_needs_both_sides() -> None:
    low = np.array([[-0.1, -0.3]])
    high = np.array([[0.3, 0.1]])
    np.testing.assert_array_equal(succeeds(low, high, 0.2), [[False, False]])
    np.testing.assert_array_equal(succeeds(low, high, 0.3), [[True, True]])
    many = succeeds(np.stack([low, 2 * low]), np.stack([high, high]), 0.4)  # a table a size
    np.testing.assert_array_equal(many, [[[True, True]], [[True, False]]])


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match=r"epsilon=1\.0"):
        succeeds(np.zeros((1, 1)), np.zeros((1, 1)), 1.0)
    with pytest.raises(ValueError, match="level=1"):
        smallest_dim(table([0, 1, 2, 3]), DIMS, 0.1, 1.0)
    with pytest.raises(ValueError, match="delta=0"):
        smallest_dim(table([0, 1, 2, 3]), DIMS, delta=0.0)
    with pytest.raises(ValueError, match=r"dims=\[40 30 20 10\] must increase"):
        smallest_dim(table([0, 1, 2, 3]), DIMS[::-1], delta=0.1)
