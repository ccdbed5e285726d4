"""Slopes against SciPy's regression, and what no line can be put through."""

import numpy as np
import pytest
from scipy import stats

from circuitax.records.estimate import slope_estimate


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
