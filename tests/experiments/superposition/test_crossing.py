"""Where a curve changes sign."""

import numpy as np
import pytest

from experiments.superposition.shared.crossing import crossing


def test_a_straight_line_is_crossed_where_it_is_zero() -> None:
    x = np.array([0.0, 1.0, 4.0, 5.0])
    assert crossing(x, 2 * x - 3) == pytest.approx(1.5, rel=1e-15)
    assert crossing(x, -(x**2) + 20) == pytest.approx(4 + 4 / 9, rel=1e-15)


def test_the_first_of_two_crossings_counts() -> None:
    assert crossing(np.arange(4.0), np.array([-1.0, 3.0, -1.0, 5.0])) == 0.25


def test_a_curve_that_keeps_its_sign_has_no_crossing() -> None:
    assert np.isnan(crossing(np.arange(3.0), np.array([1.0, 0.5, 2.0])))


def test_a_crossing_at_a_point_of_the_grid_is_found() -> None:
    x = np.array([0.0, 1.0, 3.0, 4.0])
    assert crossing(x, np.array([2.0, -2.0, 1.0, 1.0])) == 0.5
    assert crossing(x, np.array([1.0, 0.0, -5.0, 1.0])) == 1
    assert crossing(x, np.array([-1.0, -1.0, 0.0, 3.0])) == 3
    assert np.isnan(crossing(x, np.array([1.0, 0.0, 2.0, 0.0])))  # touches, does not cross


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.0, 2.0, 1.0], [-1.0, 1.0, 2.0], "must increase"),
        ([0.0, 1.0], [1.0, np.nan], r"y\[1\]=nan must be finite"),
        ([0.0, 1.0, 2.0], [0.0, 1.0], r"y has shape \(2,\), must have that of x, \(3,\)"),
    ],
)
def test_refused(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        crossing(np.array(x), np.array(y))
