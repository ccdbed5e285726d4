import numpy as np
import pytest

from experiments.superposition.shared.transitions import Transition, transitions

X = np.array([0.0, 1.0, 2.0, 4.0])


def test_lines_cross_where_algebra_says():
    rising, level, falling = X, np.full(4, 1.25), 2.5 - 0.5 * X
    found = transitions(X, {"rising": rising, "level": level, "falling": falling})
    assert [(t.before, t.after) for t in found] == [("rising", "level"), ("level", "falling")]
    np.testing.assert_allclose([t.at for t in found], [1.25, 2.5], rtol=1e-12)


def test_a_branch_that_ends_gives_way_in_the_middle():
    ends = np.array([0.1, 0.1, np.inf, np.inf])
    assert transitions(X, {"stays": np.ones(4), "ends": ends}) == [Transition(1.5, "ends", "stays")]


def test_one_branch_that_stays_lowest_has_no_transition():
    assert transitions(X, {"low": X, "high": X + 0.1}) == []


@pytest.mark.parametrize(
    ("x", "losses", "message"),
    [
        ([1.0, 1.0], {"a": [1.0, 2.0]}, "must increase"),
        ([1.0, 2.0], {"a": [1.0, np.nan]}, "that is not NaN"),
        ([1.0, 2.0], {"a": [1.0, np.inf]}, r"no finite branch at x=\[2\.\]"),
    ],
)
def test_bad_branches_are_refused(x, losses, message):
    with pytest.raises(ValueError, match=message):
        transitions(x, losses)
