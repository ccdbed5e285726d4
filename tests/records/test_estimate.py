"""Estimates against SciPy's distributions and against closed forms."""

import json

import numpy as np
import pytest
from scipy import stats

from circuitax.records.estimate import (
    Estimate,
    estimate_from_json,
    exact,
    finite_or_none,
    geometric_estimate,
    mean_estimate,
    mean_of_finite,
    proportion_estimate,
    share_estimate,
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
