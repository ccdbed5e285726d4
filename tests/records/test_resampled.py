"""Intervals of any statistic by resampling independent units, each group by itself."""

import numpy as np
import pytest

from circuitax.records.estimate import mean_estimate
from circuitax.records.resampled import resampled_estimate


def test_the_mean_has_the_interval_that_theory_gives_it() -> None:
    x = np.random.default_rng(0).normal(2, 1, 200)
    found, theory = resampled_estimate(lambda i: x[i].mean(), 200), mean_estimate(x)
    assert found.value == pytest.approx(theory.value, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((theory.low, theory.high), abs=0.03)
    assert found.n == 200 and found == resampled_estimate(lambda i: x[i].mean(), 200)


def test_a_best_of_ten_that_hangs_on_one_seed_has_an_interval() -> None:
    loss, angle = np.array([1.0, 2, 3, 4, 5]), np.array([72.0, 90, 90, 90, 90])
    lonely = resampled_estimate(lambda i: angle[i[loss[i].argmin()]], 5)
    assert (lonely.value, lonely.low, lonely.high) == (72, 72, 90)
    steady = resampled_estimate(lambda i: np.full(5, 72.0)[i[loss[i].argmin()]], 5)
    assert (steady.low, steady.high) == (72, 72)


def test_groups_are_drawn_apart() -> None:
    a, b = np.arange(8.0), np.arange(8.0)
    found = resampled_estimate(lambda i, j: a[i].mean() - b[j].mean(), 8, 8, n=8)
    assert found.value == 0 and found.low < -0.5 and found.high > 0.5 and found.n == 8


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((), {}, r"sizes=\(\)"),
        ((3, 1), {}, r"sizes=\(3, 1\) must name groups of 2"),
        ((3,), {"level": 1.0}, "level=1.0"),
        ((3,), {"n_resamples": 9}, "n_resamples=9"),
    ],
)
def test_mistakes(sizes: tuple[int, ...], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resampled_estimate(lambda *i: 0.0, *sizes, **options)
