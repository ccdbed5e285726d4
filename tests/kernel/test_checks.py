"""One line names the argument, its value and the requirement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.checks import check_index, check_range, counted_index


@pytest.mark.parametrize(
    ("value", "interval"),
    [
        (0, "[0, 1]"),
        (1.0, "(0, 1]"),
        (np.array([0.1, 0.9]), "(0, 1)"),
        (1e9, "[1, inf)"),
        (np.array([]), "(0, 1)"),
    ],
)
def test_accepted(value, interval):
    check_range("p", value, interval)


def test_traced_values_pass():
    def checked(p):
        check_range("p", p, "[0, 1]")
        return 2 * p

    assert float(jax.jit(checked)(3.0)) == 6
    assert float(jax.grad(checked)(3.0)) == 2
    assert jax.vmap(checked)(jnp.array([3.0, -4.0])).tolist() == [6, -8]
    with pytest.raises(ValueError, match=r"p=3\.0 must be in"):
        checked(3.0)


def test_a_known_array_inside_a_traced_function_is_checked():
    known = jnp.array([0.5, 2.0])

    def checked(x, interval):
        check_range("p", known, interval)
        return x * known

    assert jax.jit(lambda x: checked(x, "[0, 2]"))(3.0).tolist() == [1.5, 6]
    with pytest.raises(ValueError, match=r"p\[1\]=2.0 must be in \[0, 1\]"):
        jax.jit(lambda x: checked(x, "[0, 1]"))(3.0)


@pytest.mark.parametrize("index", [-1, 3, np.int64(3)])
def test_an_index_outside_the_axis_is_named(index):
    with pytest.raises(ValueError, match=f"head={index} must be from 0 to 2"):
        check_index("head", index, 3)


def test_an_index_inside_or_traced_passes():
    check_index("head", 0, 3)
    check_index("head", 2, 3)

    def read(index):
        check_index("head", index, 3)
        return jnp.arange(3)[index]

    assert jax.jit(read)(1) == 1


def test_an_index_may_count_from_the_end():
    assert [counted_index("position", i, 3) for i in (-3, -1, 0, np.int64(2))] == [0, 2, 0, 2]
    for index in (3, -4):
        with pytest.raises(ValueError, match=f"position={index} must be from -3 to 2"):
            counted_index("position", index, 3)
