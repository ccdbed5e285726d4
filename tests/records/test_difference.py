import numpy as np
import pytest
from scipy import stats

from circuitax.records.difference import difference_estimate, gap_between
from circuitax.records.estimate import Estimate, exact


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


def test_the_gap_between_two_intervals() -> None:
    above, below = Estimate(5.0, 4.0, 6.5, 8, ""), Estimate(2.0, 1.0, 3.25, 5, "")
    assert gap_between(above, below) == exact(0.75, 5)
    assert gap_between(below, above).value == -5.5
