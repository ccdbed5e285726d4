"""Keys: purposes, steps and members never collide."""

import jax
import numpy as np
import pytest

from circuitax.kernel.keys import at_index, derive, in_a_row, member_keys


def bits(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def test_purposes_give_different_and_repeatable_keys() -> None:
    key = jax.random.key(3)
    assert not np.array_equal(bits(derive(key, "init")), bits(derive(key, "data")))
    np.testing.assert_array_equal(bits(derive(key, "init")), bits(derive(key, "init")))


def test_members_differ_and_do_not_depend_on_their_number() -> None:
    key = jax.random.key(0)
    five, three = bits(member_keys(key, 5)), bits(member_keys(key, 3))
    assert len({tuple(row) for row in five}) == 5
    np.testing.assert_array_equal(five[:3], three)


def test_members_that_share_a_key_stand_side_by_side() -> None:
    keys = member_keys(jax.random.key(2), 2)
    np.testing.assert_array_equal(bits(in_a_row(keys, 3)), bits(keys)[[0, 0, 0, 1, 1, 1]])
    np.testing.assert_array_equal(bits(in_a_row(keys, 1)), bits(keys))


def test_a_batch_of_keys_is_derived_elementwise() -> None:
    keys = member_keys(jax.random.key(1), 4)
    batched = bits(derive(keys, "data"))
    for i in range(4):
        np.testing.assert_array_equal(batched[i], bits(derive(keys[i], "data")))
    np.testing.assert_array_equal(bits(at_index(keys, 7))[2], bits(at_index(keys[2], 7)))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="purpose=''"):
        derive(jax.random.key(0), "")
    with pytest.raises(ValueError, match="n_members=0"):
        member_keys(jax.random.key(0), 0)
