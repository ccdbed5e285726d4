import numpy as np
import pytest
from scipy import optimize, stats

from experiments.induction.induction_price.onset_law import first_crossing, fitted_onsets

SHARES = np.repeat([1.0, 0.5, 0.25, 0.125, 0.0625], 200)


def trials(last: float) -> np.ndarray:
    noise = 0.5 * np.random.default_rng(0).normal(size=SHARES.size)
    times = 2.0 * SHARES**-1.5 * np.exp(noise)
    return np.where(times <= last, times, np.nan)


def test_a_law_is_found_although_most_trials_end_before_it() -> None:
    times = trials(last=12.0)
    assert 0.5 < np.isnan(times).mean() < 0.6
    law = fitted_onsets(SHARES, times, 12.0)
    assert law.exponent == pytest.approx(1.5, abs=0.06)
    assert law.price == pytest.approx(2.0, rel=0.06) and law.spread == pytest.approx(0.5, abs=0.04)
    assert law.at(0.5) == pytest.approx(law.price * 0.5**-law.exponent)
    seen = np.isfinite(times)
    naive = np.polyfit(-np.log(SHARES[seen]), np.log(times[seen]), 1)[0]
    assert naive < 1.2  # what leaving them out would say


def test_the_law_is_the_most_likely_one() -> None:
    times = trials(last=5.0)[::10]
    shares = SHARES[::10]
    law = fitted_onsets(shares, times, 5.0)

    def cost(at: np.ndarray) -> float:
        median = at[0] - at[1] * np.log(shares)
        seen = np.isfinite(times)
        likely = stats.norm.logpdf(np.log(times[seen]), median[seen], at[2]).sum()
        return -float(likely + stats.norm.logsf(np.log(5.0), median[~seen], at[2]).sum())

    best = optimize.minimize(cost, [0.5, 1.0, 0.7], method="Nelder-Mead", tol=1e-10).x
    np.testing.assert_allclose([np.log(law.price), law.exponent, law.spread], best, rtol=1e-3)


def test_too_few_events_and_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 trials at 2 shares had the event"):
        fitted_onsets([1, 0.5, 0.25], [1.0, 2.0, np.nan], 3.0)
    with pytest.raises(ValueError, match="must be positive"):
        fitted_onsets([1, 0.5, 0.0], [1.0, 2.0, 3.0], 3.0)
    with pytest.raises(ValueError, match="shares has 2 trials and times 3"):
        fitted_onsets([1, 0.5], [1.0, 2.0, 3.0], 3.0)


def test_crossings_by_hand() -> None:
    times = [0, 10, 20, 40]
    curves = [
        [0.0, 0.1, 0.3, 0.2],
        [0.0, 0.0, 0.1, 0.1],
        [0.5, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.2],
    ]
    found = first_crossing(times, curves, 0.2)
    np.testing.assert_allclose(found, [15, np.nan, 0, 40])
