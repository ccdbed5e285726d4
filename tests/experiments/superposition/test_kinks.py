"""Kinks of curves: found where they are, and only there."""

import itertools

import numpy as np
import pytest

from experiments.superposition.toy_dynamics.kinks import kinks


def broken_line(x: np.ndarray, at: list[float], slopes: list[float]) -> np.ndarray:
    ends = [x[0], *at, x[-1]]
    heights = np.concatenate([[3.0], 3.0 + np.cumsum(slopes * np.diff(ends))])
    return np.interp(x, ends, heights)


@pytest.mark.parametrize("at", [[12.0], [8.0, 25.0], [6.0, 17.0, 31.0]])
def test_kinks_of_a_broken_line_are_found(at: list[float]) -> None:
    x = np.arange(41.0)
    y = broken_line(x, at, [-1.0, -0.05, -0.7, 0.1][: len(at) + 1])
    np.testing.assert_array_equal(kinks(x, y, tolerance=1e-6), at)


def test_a_straight_line_has_none() -> None:
    x = np.sort(np.random.default_rng(0).uniform(0, 7, 30))
    assert kinks(x, 4 - 0.3 * x, tolerance=1e-6).size == 0
    assert kinks(x, np.full(30, 2.5)).size == 0


def test_the_split_is_the_best_of_all() -> None:
    rng = np.random.default_rng(1)
    x, y = np.cumsum(rng.uniform(0.2, 1, 14)), rng.normal(size=14)

    def error(i: int, j: int) -> float:
        line = np.polyfit(x[i : j + 1], y[i : j + 1], 1)
        return float(np.sum((np.polyval(line, x[i : j + 1]) - y[i : j + 1]) ** 2))

    splits = list(itertools.combinations(range(1, 13), 2))
    best = min(splits, key=lambda s: error(0, s[0]) + error(s[0], s[1]) + error(s[1], 13))
    np.testing.assert_array_equal(kinks(x, y, tolerance=1e-9, most=3), x[list(best)])


def test_scale_and_offset_do_not_matter() -> None:
    x = np.arange(60.0)
    y = np.exp(-x / 9) + 0.5 / (1 + np.exp(x - 40))
    expected = kinks(x, y)
    assert expected.size >= 2
    np.testing.assert_array_equal(kinks(x, 1e3 * y - 7e5), expected)
    np.testing.assert_allclose(kinks(1e-4 * x + 5, y), 1e-4 * expected + 5, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "tolerance", "message"),
    [
        ([0.0, 2.0, 1.0], [1.0, 2.0, 3.0], 0.1, "increasing"),
        ([0.0, 1.0, 2.0], [1.0, np.nan, 3.0], 0.1, "3 finite numbers"),
        ([0.0, 1.0, 2.0], [1.0, 2.0], 0.1, r"shape \(2,\)"),
        ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], 0.0, "tolerance=0.0 must be positive"),
    ],
)
def test_bad_input_is_refused(x: list, y: list, tolerance: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kinks(x, y, tolerance=tolerance)
