import numpy as np
import pytest

from circuitax.superposition.polytopes import align


def rotated(rng, W):
    return np.linalg.qr(rng.normal(size=(len(W), len(W))))[0] @ W


def test_a_rotated_solution_comes_back(rng):
    W = rng.normal(size=(3, 7))
    found = align(rotated(rng, W), W)
    np.testing.assert_allclose(found.W, W, atol=1e-12)
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(3), atol=1e-12)
    assert found.distance < 1e-12 and (found.order == np.arange(7)).all()


def test_no_rotation_in_the_plane_is_nearer(rng):
    W, goal = rng.normal(size=(2, 5)), rng.normal(size=(2, 5))
    found = align(W, goal)
    angle = np.linspace(0, 2 * np.pi, 721)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    flips = np.array([np.eye(2), np.diag([1, -1])])
    every = np.einsum("abt,fbc,cj->tfaj", turn, flips, W)
    least = np.linalg.norm(every - goal, axis=(2, 3)).min()
    assert found.distance <= least + 1e-12
    assert found.distance == pytest.approx(least, rel=1e-3)


def test_rotation_and_order_are_found_together(rng):
    W = rng.normal(size=(2, 6))
    order = rng.permutation(6)
    found = align(rotated(rng, W)[:, order], W, permute=True)
    np.testing.assert_allclose(found.W, W, atol=1e-10)
    assert (order[found.order] == np.arange(6)).all()
    assert align(rotated(rng, W)[:, order], W).distance > 0.1  # the order matters


def test_bad_arguments_are_refused():
    W = np.ones((2, 3)) + np.arange(3)
    with pytest.raises(ValueError, match=r"W has shape \(2, 3\), must have that of reference"):
        align(W, W[:, :2])
    with pytest.raises(ValueError, match="n_starts=0 must be at least 1"):
        align(W, W, permute=True, n_starts=0)
    with pytest.raises(ValueError, match="W"):
        align(W * np.nan, W)
