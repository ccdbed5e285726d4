"""Directions of features in two dimensions."""

import numpy as np

from circuitax.superposition.polytopes import angles, gaps


def test_angles_and_gaps_wrap_around() -> None:
    turn = np.deg2rad([350.0, 10.0, 100.0])
    W = np.stack([np.cos(turn), np.sin(turn)])
    np.testing.assert_allclose(angles(W), [350, 10, 100], atol=1e-10)
    np.testing.assert_allclose(gaps(W), [90, 250, 20], atol=1e-10)
    turn = 2 * np.pi * np.arange(5) / 5
    np.testing.assert_allclose(gaps([np.cos(turn), np.sin(turn)]), 72, atol=1e-10)


def test_gaps_do_not_depend_on_norms_and_sum_to_a_turn(rng) -> None:
    W = rng.normal(size=(2, 7))
    np.testing.assert_allclose(gaps(W * rng.uniform(0.1, 3, 7)), gaps(W), atol=1e-9)
    np.testing.assert_allclose(gaps(W).sum(), 360, rtol=1e-12)
    assert gaps(W).min() > 0
