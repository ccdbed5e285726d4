"""Choices on other replicates, against loops in NumPy and on noise without anything to find."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.crossfit import crossfit_choice
from circuitax.records.estimate import mean_estimate


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
