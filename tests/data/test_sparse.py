"""The sparse-feature task takes a number or a list, and refuses what cannot be."""

import dataclasses

import numpy as np
import pytest

from circuitax.data.sparse import SparseTask


def test_a_number_and_a_list_of_one_are_the_same_task() -> None:
    assert SparseTask(sparsity=0.7) == SparseTask(sparsity=[0.7]) == SparseTask(sparsity=(0.7,))
    assert hash(SparseTask(sparsity=[0, 0.7])) == hash(SparseTask(sparsity=(0.0, 0.7)))
    assert dataclasses.replace(SparseTask(sparsity=[0.2]), batch_size=3).sparsity == (0.2,)


def test_density_and_importance() -> None:
    task = SparseTask(sparsity=[0, 0.9], importance_base=[1, 0.5])
    np.testing.assert_allclose(task.density, [1.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(task.importance(3), [[1, 1, 1], [1, 0.5, 0.25]])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sparsity", 1.2, "sparsity=1.2 must be in"),
        ("sparsity", -0.1, "sparsity=-0.1 must be in"),
        ("sparsity", 1.0, "sparsity=1 must be in"),
        ("sparsity", [], "at least one number"),
        ("sparsity", "high", "must be a number or a list"),
        ("sparsity", True, "must be a number or a list"),
        ("sparsity", [0.5, 0.5], "holds a number twice"),
        ("importance_base", 0, "importance_base=0 must be positive"),
        ("batch_size", 0, "batch_size=0 must be at least 1"),
    ],
)
def test_impossible_values_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseTask(**{field: value})
