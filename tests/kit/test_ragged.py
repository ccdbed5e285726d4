"""Arrays of unequal length come out of the stack as they went in, and nothing else does."""

import numpy as np
import pytest

from circuitax.kit.members import padded, stack_named, stack_ragged


def test_shorter_arrays_are_padded_behind_on_their_axis(rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=(3, n, 2)) for n in (1, 4, 2)]
    found = stack_ragged(arrays, axis=1)
    assert found.shape == (3, 3, 4, 2)
    for row, array in zip(found, arrays, strict=True):
        n = array.shape[1]
        np.testing.assert_array_equal(row[:, :n], array)
        assert np.isnan(row[:, n:]).all()
    np.testing.assert_array_equal(stack_ragged(arrays, axis=-2), found)


def test_the_type_stays_and_booleans_get_false() -> None:
    singles = [np.ones(2, np.float32), np.ones(3, np.float32)]
    assert stack_ragged(singles, 0).dtype == np.float32
    assert stack_ragged(singles, 0, dtype=float).dtype == np.float64
    alive = stack_ragged([np.array([True, True]), np.array([True])], axis=0)
    assert alive.dtype == bool
    np.testing.assert_array_equal(alive, [[True, True], [True, False]])


def test_integers_must_name_what_fills_them() -> None:
    with pytest.raises(ValueError, match="fill=None must be a value: int64 has no NaN"):
        stack_ragged([np.arange(2), np.arange(3)], axis=0)
    np.testing.assert_array_equal(
        stack_ragged([np.arange(2), np.arange(3)], axis=0, fill=-1), [[0, 1, -1], [0, 1, 2]]
    )
    assert stack_ragged([np.arange(3), np.arange(3)], axis=0).dtype == np.int64


def test_only_the_axis_named_may_differ() -> None:
    with pytest.raises(ValueError, match="same shape"):
        stack_ragged([np.zeros((2, 3)), np.zeros((3, 3))], axis=1)
    with pytest.raises(ValueError, match="same shape"):
        stack_ragged([np.zeros(2), np.zeros(3)])
    with pytest.raises(ValueError, match="arrays is empty"):
        stack_ragged([], axis=0)


def test_arms_are_stacked_by_name() -> None:
    arms = {"one": {"loss": [1.0], "other": [0.0]}, "two": {"loss": [2.0, 3.0], "other": [1.0]}}
    np.testing.assert_array_equal(stack_named(arms.values(), "loss", 0), [[1, np.nan], [2, 3]])
    np.testing.assert_array_equal(stack_named(arms.values(), "other"), [[0.0], [1.0]])


def test_one_array_is_padded_to_a_length_it_may_have() -> None:
    np.testing.assert_array_equal(padded([[1.0], [2.0]], 2), [[1, np.nan], [2, np.nan]])
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        padded([1.0, 2.0], 1)
