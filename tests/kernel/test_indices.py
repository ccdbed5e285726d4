"""Static indices are checked, traced ones pass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.checks import check_index, counted_index


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
