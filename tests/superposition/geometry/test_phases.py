"""What became of a feature, by its norm and interference."""

import numpy as np
import pytest

from circuitax.superposition.polytopes import phase, phases


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


@pytest.mark.parametrize("name", ["represented", "shared"])
def test_thresholds_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0.0 must be above 0"):
        phases(np.ones(1), np.ones(1), **{name: 0.0})
