"""Samples: the value at once, the estimate of the function that makes it."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records import estimate, sample
from circuitax.records.estimate import (
    best_estimate,
    difference_estimate,
    mean_estimate,
    resampled_estimate,
)
from circuitax.records.sample import crossfit_choice

VALUES = np.array([0.3, 1.7, 2.2, 0.9])


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (sample.mean_of(VALUES), estimate.mean_estimate(VALUES)),
        (sample.geometric_mean_of(np.log(VALUES)), estimate.geometric_estimate(np.log(VALUES))),
        (sample.share_of(VALUES > 1), estimate.share_estimate(VALUES > 1)),
        (sample.exactly(3.5, 2), estimate.exact(3.5, 2)),
        (
            sample.difference_of(VALUES, VALUES[:2]),
            difference_estimate(VALUES, VALUES[:2]),
        ),
        (
            sample.resampled(lambda i: float(VALUES[i].max()), 4),
            resampled_estimate(lambda i: float(VALUES[i].max()), 4),
        ),
        (
            sample.best_of(VALUES, VALUES**2, float),
            best_estimate(VALUES, VALUES**2, float),
        ),
    ],
)
def test_value_and_estimate_agree(found, known):
    assert found.value == pytest.approx(known.value, rel=1e-15)
    assert found.estimate() == known


def test_units_without_a_number_are_left_out():
    found = sample.mean_of_those_finite([1.0, np.nan, 4.0])
    assert found.value == 2.5 and found.estimate().n == 2
    with pytest.raises(sample.Absent, match="no unit"):
        sample.mean_of_those_finite([np.nan])


def _noise(seed: int, *shape: int) -> xr.DataArray:
    values = np.random.default_rng(seed).normal(size=shape)
    return xr.DataArray(values, dims=("strength", "seed", "kind")[: len(shape)])


@pytest.mark.parametrize(("n", "folds"), [(2, 2), (5, 2), (6, 3), (7, 7), (3, 5)])
def test_each_unit_takes_the_best_place_of_the_other_folds(n: int, folds: int) -> None:
    scores = _noise(n, 4, n, 3)
    places = crossfit_choice(scores, "strength", folds=folds)
    assert places.dims == ("seed", "kind")
    for i in range(n):
        others = [j for j in range(n) if j % folds != i % folds]
        best = scores.values[:, others].mean(axis=1).argmax(axis=0)
        np.testing.assert_array_equal(places.values[i], best)


def test_a_unit_has_no_say_in_its_own_choice() -> None:
    scores = _noise(0, 5, 6)
    places = crossfit_choice(scores, "strength")
    for i in range(6):
        changed = scores.copy()
        changed[:, i] = np.random.default_rng(i).permutation(100 * np.arange(5))
        assert crossfit_choice(changed, "strength")[i] == places[i]
    alone = crossfit_choice(scores.isel(seed=[2]), "strength")
    assert alone.values == [scores.values[:, 2].argmax()]


def test_the_best_of_twenty_noises_is_positive_on_its_own_seeds_and_0_on_others() -> None:
    chosen, split = [], []
    for draw in range(200):
        noise = _noise(draw, 20, 16)
        chosen.append(float(noise.mean("seed").max()))
        split.append(float(noise.isel(strength=crossfit_choice(noise, "strength")).mean()))
    # The greatest of twenty normal numbers is 1.87 on average; means of 16 have a deviation of 1/4.
    assert mean_estimate(chosen).low > 0.4
    assert mean_estimate(chosen).value == pytest.approx(1.867 / 4, abs=0.02)
    unbiased = mean_estimate(split)
    assert unbiased.low < 0 < unbiased.high
    assert unbiased.high - unbiased.low < 0.1


def test_bad_axes_units_and_folds_are_named() -> None:
    scores = _noise(0, 3, 4)
    with pytest.raises(ValueError, match="must have axis='rate', unit='seed'"):
        crossfit_choice(scores, "rate")
    with pytest.raises(ValueError, match="4 units in folds=1"):
        crossfit_choice(scores, "strength", folds=1)
    with pytest.raises(ValueError, match="0 units in folds=2"):
        crossfit_choice(scores.isel(seed=[]), "strength")
