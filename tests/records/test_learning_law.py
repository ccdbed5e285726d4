"""A law is found again from its own values, and says what the next doubling brings."""

import numpy as np
import pytest

from circuitax.records.learning_law import EXPONENTS, fitted_law


@pytest.mark.parametrize("exponent", [0.1, 0.5, 1.7])
def test_a_law_is_found_again(exponent: float) -> None:
    tokens = 3e6 / 2 ** np.arange(5)
    losses = 2.9 + 0.2 * (tokens / 3e6) ** -exponent
    law = fitted_law(tokens, losses)
    np.testing.assert_allclose(law[:3], [2.9, 0.2, exponent], rtol=1e-3)
    np.testing.assert_allclose(law.at(tokens), losses, rtol=1e-6)
    twice = 2.9 + 0.2 * 2**-exponent
    assert law.next_doubling == pytest.approx(losses[0] - twice, rel=2e-3)


def test_three_lengths_are_met_exactly() -> None:
    law = fitted_law([4, 2, 1], [3.0, 3.1, 3.3])
    np.testing.assert_allclose(law.at([4, 2, 1]), [3.0, 3.1, 3.3], atol=1e-5)
    # Gains halve with each doubling, so that the limit is one more such sum below.
    assert law.limit == pytest.approx(2.9, abs=1e-3) and law.exponent == pytest.approx(1, abs=0.01)


def test_losses_that_do_not_fall_have_no_gain() -> None:
    law = fitted_law([1, 2, 4, 8], [3.0, 3.1, 3.0, 3.2])
    assert law.gain == 0 and law.limit == pytest.approx(3.075)
    assert EXPONENTS[0] <= law.exponent <= EXPONENTS[1]


def test_two_lengths_are_too_few() -> None:
    with pytest.raises(ValueError, match="with 2 different lengths, must have at least three"):
        fitted_law([1, 2, 2], [3.0, 2.9, 2.9])
