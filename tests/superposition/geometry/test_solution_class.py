import numpy as np
import pytest

from circuitax.superposition.polytopes import Phase, phase, polytopes, solution_class


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


def test_names_survive_rotation_scaling_and_noise(rng):
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    W = 1.1 * rotation @ simplex(4) + 0.02 * rng.normal(size=(3, 4))
    assert solution_class(W) == "tetrahedron"


def test_polytopes_name_their_features():
    W = np.zeros((3, 6))
    W[:2, [1, 3, 4]], W[2, [0, 5]] = polygon(3), [1, -1]
    assert polytopes(W) == [("triangle", (1, 3, 4)), ("digon", (0, 5))]


@pytest.mark.parametrize(
    ("W", "expected"),
    [
        ([[1, 0.2]], Phase.ignored),
        ([[1, -1]], Phase.superposed),
        ([[1, 0], [0, 1]], Phase.dedicated),
        ([[1, 0.1], [0, 1]], Phase.dedicated),
    ],
)
def test_phases_of_the_last_feature(W, expected):
    assert phase(np.array(W, float)) is expected


def test_phase_of_a_chosen_feature():
    assert phase(np.array([[0.0, 1.0]]), 0) is Phase.ignored
