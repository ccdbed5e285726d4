"""Keys by purpose and member, and uniform numbers bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import at_index, derive, host_generator, in_a_row, member_keys, uniforms


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


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("shape", [(), (2, 0), (300, 1024)])
def test_numbers_are_those_of_jax(shape: tuple[int, ...], double: bool) -> None:
    with jax.enable_x64(double):
        for dtype in (float, jnp.float32, jnp.float16, *([jnp.float64] if double else [])):
            check(shape, dtype)


def check(shape: tuple[int, ...], dtype: type) -> None:
    key = jax.random.fold_in(jax.random.key(12345), 77)
    got, want = uniforms(key, shape, dtype), jax.random.uniform(key, shape, dtype)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_numbers_are_those_of_jax_under_jit_and_vmap() -> None:
    keys = jax.random.split(jax.random.key(5), 4)
    got = jax.jit(jax.vmap(lambda key: uniforms(key, (9, 33))))(keys)
    want = np.stack([jax.random.uniform(key, (9, 33), float) for key in keys])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_are_asked_themselves(impl: str) -> None:
    key = jax.random.key(3, impl=impl)
    np.testing.assert_array_equal(uniforms(key, (4, 5)), jax.random.uniform(key, (4, 5), float))


def test_the_older_threefry_is_asked_itself() -> None:
    key = jax.random.key(8)
    with jax.threefry_partitionable(False):
        want = jax.random.uniform(key, (6, 4), float)
        np.testing.assert_array_equal(uniforms(key, (6, 4)), want)
    assert not np.array_equal(want, uniforms(key, (6, 4)))


def test_equal_keys_draw_alike_and_other_keys_do_not() -> None:
    key = jax.random.key(3)
    drawn = [host_generator(k).integers(0, 1000, 50) for k in (key, key, derive(key, "other"))]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).mean() > 0.9


def test_the_generator_is_seeded_with_both_words_of_the_key() -> None:
    # The default implementation keeps the seed in the second of two words.
    wanted = np.random.default_rng(np.array([0, 5], np.uint32)).normal(size=4)
    np.testing.assert_array_equal(host_generator(jax.random.key(5)).normal(size=4), wanted)
