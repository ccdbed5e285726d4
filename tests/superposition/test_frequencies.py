"""Power laws of frequencies, ignored tails and overlaps, against sums written out."""

import numpy as np
import pytest

from circuitax.projection.packing_bounds import welch_bound
from circuitax.superposition.frequencies import power_law, unlearned_loss
from circuitax.superposition.overlaps import mean_square_overlap


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


def test_the_mean_square_overlap_is_that_of_all_pairs_and_at_least_welchs() -> None:
    rng = np.random.default_rng(0)
    W = rng.normal(size=(2, 3, 7)) * rng.uniform(0.1, 3, size=(2, 1, 7))
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    for model, found in zip(unit, mean_square_overlap(W), strict=True):
        pairs = [(model[:, i] @ model[:, j]) ** 2 for i in range(7) for j in range(7) if i != j]
        assert found == pytest.approx(np.mean(pairs), rel=1e-12)
        assert found > welch_bound(7, 3) ** 2


def test_a_tight_frame_meets_the_welch_bound() -> None:
    angle = 2 * np.pi * np.arange(5) / 5
    pentagon = np.stack([np.cos(angle), np.sin(angle)])
    assert mean_square_overlap(pentagon) == pytest.approx(welch_bound(5, 2) ** 2, rel=1e-12)
    with pytest.raises(ValueError, match="1 columns of norm 0"):
        mean_square_overlap(pentagon * (np.arange(5) > 0))
