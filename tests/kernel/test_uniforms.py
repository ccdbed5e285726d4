"""Uniform numbers of training steps: those of JAX, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import uniforms


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
