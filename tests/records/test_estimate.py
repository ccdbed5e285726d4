"""Estimates against SciPy's distributions and against closed forms."""

import json

import numpy as np
import pytest
from scipy import stats

from circuitax.records.estimate import (
    Estimate,
    best_estimate,
    difference_estimate,
    estimate_from_json,
    exact,
    finite_or_none,
    geometric_estimate,
    mean_estimate,
    mean_of_finite,
    proportion_estimate,
    ratio_estimate,
    resampled_estimate,
    share_estimate,
    slope_estimate,
)


def test_mean_has_the_t_interval(rng: np.random.Generator) -> None:
    samples = rng.normal(size=7)
    found = mean_estimate(samples, level=0.9)
    expected = stats.ttest_1samp(samples, 0).confidence_interval(0.9)
    assert found.value == pytest.approx(samples.mean(), rel=1e-14)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert found.n == 7


def test_mean_interval_covers_as_often_as_it_says(rng: np.random.Generator) -> None:
    hits = sum(
        found.low <= 2.0 <= found.high
        for found in (mean_estimate(rng.normal(2.0, 1.0, 4), 0.8) for _ in range(400))
    )
    assert abs(hits / 400 - 0.8) < 5 * np.sqrt(0.8 * 0.2 / 400)


def test_one_sample_has_no_interval() -> None:
    assert mean_estimate([3.0])[:4] == (3.0, -np.inf, np.inf, 1)


@pytest.mark.parametrize(("value", "bounds"), [(0, (0, 1)), (1, (0, 1)), (2.5, (-1, 7))])
def test_equal_samples_between_bounds_have_wilsons_interval(
    value: float, bounds: tuple[float, float]
) -> None:
    n, z = 5, stats.norm.ppf(0.975)
    found = mean_estimate([value] * n, bounds=bounds)
    with_it = n / (n + z**2)  # Wilson's lower end for n of n
    ends = [value + (1 - with_it) * (end - value) for end in bounds]
    assert found[:4] == pytest.approx((value, *ends, n))
    assert found.method == "mean of equal samples, Wilson 95%"
    if bounds == (0, 1):
        assert found[:4] == pytest.approx(proportion_estimate(n * value, n)[:4])
    assert mean_estimate([value] * n)[1:3] == (value, value)


def test_bounds_change_nothing_else(rng: np.random.Generator) -> None:
    samples = rng.uniform(size=6)
    assert mean_estimate(samples, bounds=(0, 1)) == mean_estimate(samples)
    assert mean_of_finite([np.nan, *samples], bounds=(0, 1)) == mean_estimate(samples)
    assert mean_of_finite([np.nan, 1, 1], bounds=(0, 1)).low == proportion_estimate(2, 2).low
    assert mean_estimate([1.0], bounds=(0, 1))[:4] == (1.0, -np.inf, np.inf, 1)
    with pytest.raises(
        ValueError, match=r"samples has values from 0\.5 to 1\.5, must lie in bounds"
    ):
        mean_estimate([0.5, 1.5], bounds=(0, 1))


def test_wilson_interval_by_hand() -> None:
    n, p, z = 10, 0.3, stats.norm.ppf(0.975)
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    found = proportion_estimate(3, 10)
    assert found[:4] == pytest.approx((0.3, centre - half, centre + half, 10))


def test_clopper_pearson_inverts_the_binomial_tail() -> None:
    found = proportion_estimate(3, 10, method="exact")
    assert stats.binom.sf(2, 10, found.low) == pytest.approx(0.025)
    assert stats.binom.cdf(3, 10, found.high) == pytest.approx(0.025)
    assert found.high - found.low > np.diff(proportion_estimate(3, 10)[1:3])[0]


def test_exact_is_its_own_interval() -> None:
    assert exact(0.25) == Estimate(0.25, 0.25, 0.25, 1, "exact")


def test_json_keeps_infinite_ends() -> None:
    found = mean_estimate([3.0])
    text = json.dumps(finite_or_none(found._asdict()), allow_nan=False)
    assert estimate_from_json(json.loads(text)) == found
    assert np.isnan(estimate_from_json(finite_or_none(exact(np.nan)._asdict())).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_estimate([]), "samples is empty"),
        (lambda: mean_estimate([1.0, np.nan]), "1 numbers that are not finite"),
        (lambda: mean_estimate([1.0, 2.0], level=1.0), "level=1.0 must be in"),
        (lambda: proportion_estimate(1, 0), "n=0 must be at least 1"),
        (lambda: proportion_estimate(4, 3), "successes=4 must be between 0 and n=3"),
        (lambda: proportion_estimate(1, 3, method="wald"), "method='wald' must be"),
    ],
)
def test_errors_name_argument_value_and_requirement(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_share_is_the_proportion_of_what_is_true() -> None:
    yes = np.array([[True, False, True], [True, True, False]])
    assert share_estimate(yes) == proportion_estimate(4, 6)
    assert share_estimate(yes, 0.9, "exact") == proportion_estimate(4, 6, 0.9, "exact")
    with pytest.raises(ValueError, match="n=0 must be at least 1"):
        share_estimate([])


def test_samples_that_are_not_finite_are_left_out() -> None:
    found = mean_of_finite([1.0, np.nan, 4.0, -np.inf, 2.0])
    assert found == mean_estimate([1.0, 4.0, 2.0]) and found.n == 3
    with pytest.raises(ValueError, match="samples is empty"):
        mean_of_finite([np.nan])


def test_geometric_mean_by_scipy(rng: np.random.Generator) -> None:
    samples = rng.lognormal(size=9)
    found = geometric_estimate(np.log(samples))
    assert found.value == pytest.approx(stats.gmean(samples), rel=1e-12)
    ends = stats.ttest_1samp(np.log(samples), 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((np.exp(ends.low), np.exp(ends.high)))
    assert found.n == 9 and found.method == "geometric mean, t interval 95%"


def test_agrees_with_scipy(rng: np.random.Generator) -> None:
    a, b = rng.normal(3, 1, 9), rng.normal(1, 4, 14)
    estimate = difference_estimate(a, b, level=0.9)
    welch = stats.ttest_ind(a, b, equal_var=False)
    interval = welch.confidence_interval(0.9)
    np.testing.assert_allclose(
        estimate[:3], [a.mean() - b.mean(), interval.low, interval.high], rtol=1e-10
    )
    assert estimate.n == 9 and "Welch" in estimate.method


def test_single_and_constant_samples() -> None:
    assert difference_estimate([2.0], [1.0, 3.0])[:3] == (0.0, -np.inf, np.inf)
    assert difference_estimate([2.0, 2.0], [1.0, 1.0])[:3] == (1.0, 1.0, 1.0)


def test_samples_are_checked() -> None:
    with pytest.raises(ValueError, match="not finite"):
        difference_estimate([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(ValueError, match="empty"):
        difference_estimate([1.0, 2.0], [])


def test_a_ratio_has_the_noise_of_both_groups() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(3, 0.4, 12), rng.normal(2, 0.3, 8)
    found = ratio_estimate(first, second)
    assert found.value == pytest.approx(first.mean() / second.mean(), rel=1e-12)
    assert found.n == 8
    error = np.sqrt(
        first.var(ddof=1) / 12 / first.mean() ** 2 + second.var(ddof=1) / 8 / second.mean() ** 2
    )
    assert 2.0 * error < np.log(found.high / found.value) < 2.3 * error  # t of 14 to 18 degrees
    assert found.high / found.value == pytest.approx(found.value / found.low, rel=1e-9)
    quiet = ratio_estimate(first, np.full(8, second.mean()))
    assert quiet.high - quiet.low < found.high - found.low
    with pytest.raises(ValueError, match="must be positive"):
        ratio_estimate(first, -second)


def test_slope_and_its_error_are_those_of_a_regression(rng: np.random.Generator) -> None:
    x = np.repeat([5.0, 8.0, 11.0, 20.0], 6)
    y = 0.3 * x + rng.normal(size=x.size)
    found, known = slope_estimate(x, y), stats.linregress(x, y)
    assert found.value == pytest.approx(known.slope, rel=1e-12)
    half = stats.t.ppf(0.975, x.size - 2) * known.stderr
    ends = known.slope - half, known.slope + half
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-12)
    assert found.n == 24 and found.method == "least squares 95%"


def test_three_points_leave_one_degree_of_freedom() -> None:
    found = slope_estimate([0.0, 1.0, 2.0], [0.0, 1.0, 0.5])
    # Residuals 1/4 · (-1, 2, -1), so s² = 6/16; the spread of x is 2; t with 1 degree is 12.706.
    assert found.value == pytest.approx(0.25)
    assert found.high - found.value == pytest.approx(12.7062 * np.sqrt(6 / 16 / 2), rel=1e-4)


@pytest.mark.parametrize(
    ("x", "y"), [([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, 3.0], [1.0, 2.0]), ([2.0] * 4, [1.0] * 4)]
)
def test_what_has_no_slope(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="x "):
        slope_estimate(x, y)


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
