"""Slopes against SciPy's regression, and what no line can be put through."""

import numpy as np
import pytest
from scipy import stats

from circuitax.records.slope import slope_estimate


def test_slope_and_its_error_are_those_of_a_regression(rng: np.random.Generator) -> None:
    x = np.repeat([5.0, 8.0, 11.0, 20.0], 6)
    y = 0.3 * x + rng.normal(size=x.size)
    found, known = slope_estimate(x, y), stats.linregress(x, y)
    assert found.value == pytest.approx(known.slope, rel=1e-12)
    ends = known.slope - 1.96 * known.stderr, known.slope + 1.96 * known.stderr
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-12)
    assert found.n == 24 and found.method == "least squares 95%"


@pytest.mark.parametrize(
    ("x", "y"), [([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, 3.0], [1.0, 2.0]), ([2.0] * 4, [1.0] * 4)]
)
def test_what_has_no_slope(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="x "):
        slope_estimate(x, y)
