"""Counts of ε-orthogonal directions: order of the methods, bounds, agreement with the law."""

import jax
import numpy as np
import pytest

from circuitax.projection.laws import random_capacity
from circuitax.projection.packings import (
    capacity_bound,
    greedy_counts,
    optimised_counts,
    random_counts,
)

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


def test_an_optimiser_that_fails_does_not_lose_what_smaller_dimensions_hold() -> None:
    # One step leaves random directions, of which few are kept; three dimensions can be optimised.
    dims = (3, 9, 11)
    found = np.asarray(optimised_counts(jax.random.key(5), dims, EPSILON, 4, 1))
    assert (found >= np.array(dims)[:, None]).all()
    assert (np.diff(found, axis=0) >= np.diff(dims)[:, None]).all()


def test_random_counts_follow_the_birthday_law() -> None:
    found = np.asarray(random_counts(jax.random.key(1), (20, 60), EPSILON, 200))
    # Median of 200: within the 40 % and 60 % points but for five keys in a thousand.
    for row, dim in zip(found, (20, 60), strict=True):
        low, high = np.quantile(row, [0.4, 0.6])
        assert low <= float(random_capacity(dim, EPSILON)) <= high + 1


def test_dimensions_without_a_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="dims="):
        optimised_counts(jax.random.key(0), (5, 40), EPSILON, 2, 10)
