import numpy as np
import pytest
from scipy import stats

from circuitax.records.estimate import difference_estimate, ratio_estimate


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
