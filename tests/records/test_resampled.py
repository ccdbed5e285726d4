"""Intervals of any statistic by resampling independent units, each group by itself."""

import numpy as np
import pytest

from circuitax.records.estimate import mean_estimate
from circuitax.records.resampled import best_estimate, resampled_estimate


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


def test_one_unit_has_a_value_and_no_interval() -> None:
    found = resampled_estimate(lambda i, j: 7.0, 1, 3)
    assert (found.value, found.low, found.high, found.n) == (7, -np.inf, np.inf, 4)


def test_the_best_of_each_cell_is_drawn_with_all_its_cells() -> None:
    losses = np.array([[1.0, 9.0], [2.0, np.nan], [3.0, 8.0], [4.0, 7.0]])
    values = np.array([[10.0, 0.0], [20.0, 500.0], [20.0, 1.0], [20.0, 2.0]])
    found = best_estimate(losses, values, np.max)
    assert (found.value, found.low, found.high) == (10, 10, 20)
    assert best_estimate(losses, values).value == pytest.approx((10 + 2) / 2)
    one = best_estimate(losses[:, 0], values[:, 0])
    assert (one.value, one.low, one.high, one.n) == (10, 10, 20, 4)
    assert best_estimate(losses[:1], values[:1]).high == np.inf


def test_a_cell_in_which_every_replicate_diverged_has_no_best() -> None:
    losses = np.array([[1.0, np.nan, 3.0], [2.0, np.inf, 4.0]])
    for over in (np.mean, np.max):
        found = best_estimate(losses, np.ones((2, 3)), over)
        assert np.isnan(found.value) and (found.low, found.high, found.n) == (-np.inf, np.inf, 0)
        assert found.method == "no best: no finite loss in 1 of 3 cells"


def test_replicates_that_diverged_do_not_count() -> None:
    losses = np.array([[2.0, 1.0], [1.0, np.nan], [3.0, np.nan], [4.0, np.nan]])
    values = np.array([[7.0, 5.0], [8.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
    alone = best_estimate(losses, values)
    # Every resample with a best in the second cell has the same one there: that is no certainty.
    assert (alone.value, alone.low, alone.high, alone.n) == (6.5, -np.inf, np.inf, 1)
    both = best_estimate(losses[:, :1], values[:, :1])
    assert both.n == 4 and (both.low, both.high) == (7, 9)


def test_losses_and_values_have_one_shape() -> None:
    with pytest.raises(ValueError, match=r"values has shape \(2,\), must have that of losses"):
        best_estimate([1.0, 2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((), {}, r"sizes=\(\)"),
        ((3, 0), {}, r"sizes=\(3, 0\) must name groups of 1"),
        ((3,), {"level": 1.0}, "level=1.0"),
        ((3,), {"n_resamples": 9}, "n_resamples=9"),
    ],
)
def test_mistakes(sizes: tuple[int, ...], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resampled_estimate(lambda *i: 0.0, *sizes, **options)
