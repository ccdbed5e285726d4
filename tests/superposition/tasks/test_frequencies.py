"""Power laws of frequencies and ignored tails, against sums written out."""

import numpy as np
import pytest

from circuitax.superposition.feature_laws import power_law, unlearned_loss


def test_frequencies_of_a_power_law() -> None:
    p = power_law(4, 2, active=0.5)
    np.testing.assert_allclose(p, 0.5 * np.array([1, 1 / 4, 1 / 9, 1 / 16]) / (205 / 144))
    np.testing.assert_allclose(power_law(3, 0), 1 / 3)
    with pytest.raises(ValueError, match=r"active=2 must be at most 1\.42"):
        power_law(4, 2, active=2)
    with pytest.raises(ValueError, match="exponent=-1"):
        power_law(4, -1)


def test_the_ignored_tail_is_its_sum() -> None:
    p = np.array([0.5, 0.2, 0.1])
    found = unlearned_loss(p, np.array([0, 1, 3]))
    np.testing.assert_allclose(found, [4 / 3 * 0.8, 4 / 3 * 0.3, 0], atol=1e-15)
    assert unlearned_loss(p, 2, mean_square=1.0) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="n_learned=4 must be in"):
        unlearned_loss(p, 4)
