"""Intervals and balls hold what they should."""

import operator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from circuitax.superposition.intervals import Interval, ball, ball_precision, lower_end, upper_end
from circuitax.superposition.pair_loss import pair_energy, pair_error, pair_work

NUMBERS = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 5e-324, -5e-324, 2.0**-1022, 1.0, -1.0, 3.0])
OPERATIONS = (operator.add, operator.sub, operator.mul, operator.truediv)


def holds(interval: Interval, exact) -> bool:
    """A ball so small that it is inside whenever its number is."""
    return bool(ball(float(interval.low)) <= exact) and bool(exact <= ball(float(interval.high)))


@settings(max_examples=60)
@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(OPERATIONS))
def test_results_of_members_are_members(a, b, c, d, operation) -> None:
    one, two = Interval(*sorted((a, b))), Interval(*sorted((c, d)))
    found = operation(one, two)
    with ball_precision(2500):  # exact for all sums and products of these
        for x in (a, b, (a + b) / 2):
            for y in (c, d, (c + d) / 2):
                inside = one.low <= x <= one.high and two.low <= y <= two.high
                if inside and not (operation is operator.truediv and y == 0):
                    assert holds(found, operation(ball(x), ball(y)))


@settings(max_examples=40)
@given(NUMBERS)
def test_an_end_moves_at_least_as_far_as_nextafter(a) -> None:
    moved = Interval(a) + 0.0
    assert moved.low <= np.nextafter(a, -np.inf) and moved.high >= np.nextafter(a, np.inf)
    assert moved.high - moved.low <= 5 * np.spacing(abs(a))


def test_division_by_an_interval_around_zero_gives_the_whole_line() -> None:
    whole = Interval([1.0, 1.0]) / Interval([-1.0, 2.0], [1.0, 3.0])
    np.testing.assert_array_equal(whole.low[0], -np.inf)
    np.testing.assert_array_equal(whole.high[0], np.inf)
    assert 1 / 3 - 1e-15 < whole.low[1] < 1 / 3 and 0.5 < whole.high[1] < 0.5 + 1e-15


@settings(max_examples=12)
@given(
    st.floats(0.01, 1),
    st.floats(1e-6, 4),
    st.floats(0.001, 4),
    st.sampled_from([1.0, -1.0]),
    st.floats(-5, 4),
)
def test_the_loss_in_intervals_holds_the_loss_in_balls(p, a, size, sign, b) -> None:
    k = sign * size
    parts = [pair_error, pair_work, lambda *at: pair_energy(*at).value]
    parts += [lambda *at, i=i: pair_energy(*at)[i] for i in (2, 3)]
    for part in parts:
        found = part(Interval(p), Interval(a), Interval(k), Interval(b))
        with ball_precision(300):
            assert holds(found, part(ball(p), ball(a), ball(k), ball(b)))


def test_ends_of_a_ball_are_floats_beyond_it() -> None:
    with ball_precision(200):
        third = ball(1.0) / 3
        assert ball(lower_end(third)) < third < ball(upper_end(third))
    assert upper_end(third) - lower_end(third) <= 4 * np.spacing(1 / 3)
