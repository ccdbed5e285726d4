"""A seed starts alike and sees the same data in every cell; another seed does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.arms import crossed_members, file_name_of


def test_keys_follow_from_the_seed_alone() -> None:
    key, hyper = jax.random.key(3), jnp.arange(12.0)
    found = crossed_members(key, 0.1, hyper, seeds=3)
    for purpose, keys in (("init", found.init_key), ("data", found.data_key)):
        bits = jax.random.key_data(keys).reshape(3, 4, -1)
        wanted = jax.random.key_data(member_keys(derive(key, purpose), 3))
        np.testing.assert_array_equal(bits, np.broadcast_to(wanted[:, None], bits.shape))
        assert len(np.unique(bits[:, 0], axis=0)) == 3
    np.testing.assert_allclose(found.learning_rate, np.full(12, 0.1), rtol=1e-6)
    np.testing.assert_array_equal(found.hyper, hyper)
    fewer_cells = crossed_members(key, 0.1, jnp.arange(6.0), seeds=3)
    np.testing.assert_array_equal(
        jax.random.key_data(fewer_cells.data_key[::2]), jax.random.key_data(found.data_key[::4])
    )


@pytest.mark.parametrize("seeds", [0, 5, -3])
def test_seeds_divide_the_members(seeds: int) -> None:
    with pytest.raises(ValueError, match=f"seeds={seeds} must divide the number of members, 12"):
        crossed_members(jax.random.key(0), 0.1, jnp.arange(12.0), seeds)


def test_file_names_of_arms() -> None:
    assert file_name_of("2 layers, primed") == "2-layers-primed"
    assert file_name_of("1 layer") == "1-layer"
