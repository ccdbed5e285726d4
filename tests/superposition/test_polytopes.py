"""Names of solutions, phases of features, and solutions that are turned."""

import numpy as np
import pytest

from circuitax.superposition.polytopes import (
    align,
    angles,
    components,
    gaps,
    phase,
    phases,
    polytopes,
    solution_class,
)


def polygon(k):
    angle = 2 * np.pi * np.arange(k) / k
    return np.stack([np.cos(angle), np.sin(angle)])


def simplex(k):
    """k unit vectors in k - 1 dimensions at equal angles."""
    centred = np.eye(k) - 1 / k
    return (np.linalg.svd(centred)[0][:, : k - 1].T @ centred) * (k / (k - 1)) ** 0.5


def square_antiprism():
    turn = np.pi / 2 * np.arange(4)
    height = 0.5
    top = np.stack([np.cos(turn), np.sin(turn), np.full(4, height)])
    bottom = np.stack([np.cos(turn + np.pi / 4), np.sin(turn + np.pi / 4), np.full(4, -height)])
    W = np.concatenate([top, bottom], axis=1)
    W[2] *= (2 * height) ** -1 * 2**0.5  # tight frame: 8 h^2 = 4
    return W


@pytest.mark.parametrize(
    ("W", "name"),
    [
        (polygon(3), "triangle"),
        (polygon(4), "2 digon"),
        (polygon(5), "pentagon"),
        (polygon(6), "hexagon"),
        (simplex(4), "tetrahedron"),
        (simplex(5), "4-simplex"),
        (square_antiprism(), "square antiprism"),
        (np.eye(3), "3 dedicated"),
        (np.array([[0.7, 0.7, 0], [0, 0, 1]]), "2 in 1 + dedicated"),
        (np.zeros((2, 4)), "nothing"),
        (np.array([[1, 0, 0.3], [0, 1, 0.2]]), "3 in 2"),
    ],
)
def test_names(W, name):
    assert solution_class(W) == name


def test_polytopes_name_their_features():
    W = np.zeros((3, 6))
    W[:2, [1, 3, 4]], W[2, [0, 5]] = polygon(3), [1, -1]
    assert polytopes(W) == [("triangle", (1, 3, 4)), ("digon", (0, 5))]


def test_the_corners_of_the_phase_diagram() -> None:
    norm = np.array([[0.0, 0.49], [0.5, 1.2]])
    found = phases(norm, np.array([[0.0, 3.0], [0.49, 0.5]]))
    assert found.tolist() == [["ignored", "ignored"], ["dedicated", "superposed"]]
    assert phases([0.4], [0.3], represented=0.3, shared=0.2).tolist() == ["superposed"]


def test_one_feature_of_a_model_has_the_phase_of_its_numbers(rng: np.random.Generator) -> None:
    seen = set()
    for W in rng.normal(size=(60, 2, 3)) * rng.uniform(0, 1, size=(60, 1, 3)):
        norm = np.linalg.norm(W, axis=0)
        cosine = (W / norm).T @ W
        interference = (cosine**2).sum(axis=1) - norm**2
        wanted = phases(norm, interference).tolist()
        assert [phase(W, i) for i in range(3)] == wanted
        seen |= set(wanted)
    assert seen == {"ignored", "superposed", "dedicated"}


def test_angles_and_gaps_wrap_around() -> None:
    turn = np.deg2rad([350.0, 10.0, 100.0])
    W = np.stack([np.cos(turn), np.sin(turn)])
    np.testing.assert_allclose(angles(W), [350, 10, 100], atol=1e-10)
    np.testing.assert_allclose(gaps(W), [90, 250, 20], atol=1e-10)
    turn = 2 * np.pi * np.arange(5) / 5
    np.testing.assert_allclose(gaps([np.cos(turn), np.sin(turn)]), 72, atol=1e-10)


BIPYRAMID = np.array(
    [[1, -0.5, 0, -0.5, 0, 0], [0, 3**0.5 / 2, 0, -(3**0.5) / 2, 0, 0.01], [0, 0, 1, 0, -1, 0]]
)


def test_components_are_tegum_factors_without_ignored_features():
    assert components(BIPYRAMID) == [(0, 1, 3), (2, 4)]


def test_edge_threshold_is_on_the_cosine():
    W = np.array([[1, 0.4], [0, 2.0]])  # cosine 0.196, product 0.4
    assert components(W, edge=0.15) == [(0, 1)]
    assert components(W, edge=0.25) == [(0,), (1,)]


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
