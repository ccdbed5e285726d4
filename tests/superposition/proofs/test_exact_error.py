"""The error of one output in exact rationals: by hand, and against sums over a fine grid."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from circuitax.superposition.pair_proof import exact_error

numbers = st.fractions(min_value=-2, max_value=2, max_denominator=1000)
shares = st.fractions(min_value=0, max_value=1, max_denominator=1000)


def test_cases_by_hand() -> None:
    half, one, nothing = Fraction(1, 2), Fraction(1), Fraction(0)
    # Right for the own feature, and y too high when the other is on: p (1 - p) / 3 and, both on,
    # (x - (x + y))^2 again.
    assert exact_error(half, one, [one], nothing) == half * Fraction(1, 3)
    # Never on: E x^2.
    assert exact_error(half, one, [-one, one], Fraction(-9)) == half / 3
    # Half of the range of a steep output is cut off: int_0^1/2 x^2 + int_1/2^1 (x - 1/2)^2.
    assert exact_error(one, one, [], -half) == Fraction(1, 24) + Fraction(1, 8)
    # A constant, with no feature on: b^2 and the variance around it.
    assert exact_error(nothing, one, [one, one], half) == Fraction(1, 4)


@given(shares, numbers, st.lists(numbers, max_size=2), numbers)
def test_it_is_the_mean_over_a_grid(p, gain, couplings, bias) -> None:
    n = 60
    x = (np.arange(n) + 0.5) / n
    total = 0.0
    for on in np.ndindex(*[2] * (1 + len(couplings))):
        axes = np.meshgrid(*[x if one else np.zeros(1) for one in on], indexing="ij")
        slopes = [float(gain), *map(float, couplings)]
        drive = float(bias) + sum(k * axis for k, axis in zip(slopes, axes, strict=True))
        share = np.prod([float(p) if one else 1 - float(p) for one in on])
        total += share * ((axes[0] - np.maximum(drive, 0)) ** 2).mean()
    np.testing.assert_allclose(float(exact_error(p, gain, couplings, bias)), total, atol=6e-3)


@given(shares, numbers, numbers, numbers, numbers)
def test_features_may_be_exchanged_and_a_silent_one_left_out(p, gain, one, two, bias) -> None:
    both = exact_error(p, gain, [one, two], bias)
    assert both == exact_error(p, gain, [two, one], bias) >= 0
    assert exact_error(p, gain, [one, Fraction(0)], bias) == exact_error(p, gain, [one], bias)
