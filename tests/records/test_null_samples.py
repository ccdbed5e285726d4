"""Null draws of samples, against permutations that are counted by hand."""

import numpy as np
import pytest

from circuitax.records.difference import ratio_estimate
from circuitax.records.estimate import exact
from circuitax.records.null_draws import beside
from circuitax.records.null_samples import exchanged, regrouped


def test_exchanged_sides_keep_sizes_and_lose_signs() -> None:
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    draws = exchanged({"gap": sizes, "other": sizes**2}, n_draws=400)
    values = {draw.value for draw in draws["gap"]}
    # All sums ±1 ±2 ±4 ±8 are different, and odd: 16 means from -15/4 to 15/4.
    assert values == {odd / 4 for odd in range(-15, 16, 2)}
    assert abs(np.mean([draw.value for draw in draws["gap"]])) < 0.4
    assert draws["other"][0].n == 4 and len(draws["other"]) == 400


def test_a_difference_that_all_replicates_share_rarely_holds_when_sides_are_exchanged() -> None:
    draws = exchanged({"gap": np.linspace(1, 1.2, 12)})["gap"]
    assert 0 <= np.mean([draw.low > 0 for draw in draws]) <= 0.05


def test_regrouped_replicates_are_a_permutation_of_what_is_left_without_the_difference() -> None:
    first, second = np.array([110.0, 111.0, 112.0, 117.0]), np.array([0.0, 1.0])
    draws = regrouped(first, second, n_draws=400)
    left = [-2.5, -1.5, -0.5, 4.5, -0.5, 0.5]
    # Fifteen ways to choose the pair of the second group.
    pairs = [(a, b) for i, a in enumerate(left) for b in left[i + 1 :]]
    expected = {round(-(a + b) / 4 - (a + b) / 2, 9) for a, b in pairs}
    assert {round(draw.value, 9) for draw in draws} == expected
    assert {draw.n for draw in draws} == {2}
    ratios = regrouped(first, second + 50, ratio_estimate, n_draws=50)
    assert np.mean([ratio.value for ratio in ratios]) == pytest.approx(1, abs=0.02)
    with pytest.raises(ValueError, match="groups of 4 and 0 replicates must not be empty"):
        regrouped(first, [])


def test_two_groups_far_apart_rarely_differ_once_shuffled() -> None:
    rng = np.random.default_rng(0)
    draws = regrouped(5 + 0.01 * rng.normal(size=8), 0.01 * rng.normal(size=8))
    assert 0 < np.mean([draw.low > 0 for draw in draws]) <= 0.05


def test_a_world_that_holds_counts_in_every_draw() -> None:
    draws = [exact(0.0), None, exact(2.0)]
    assert [one and one.value for one in beside(draws, [None])] == [0, None, 2]
    worlds = [exact(1.0), exact(-1.0), None]
    assert [one and one.value for one in beside(draws, worlds)] == [1, 1, 2]
