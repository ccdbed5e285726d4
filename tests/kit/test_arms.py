"""A seed starts alike and sees the same data in every cell; another seed does not."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.arms import crossed_members, crossed_training, file_name_of, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.training.ensemble import Mapping, Plan, advance, init
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem


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


def test_crossed_training_is_the_training_of_crossed_members(tmp_path: Path) -> None:
    cells = ToyHyper(np.array([[0.9] * 3, [0.2] * 3]), np.array([[1.0, 0.5, 0.1], [1.0, 1.0, 1.0]]))
    problem, optim = ToyProblem(ToySpec(3, 2), batch_size=8), OptimSpec(steps=6)
    key = jax.random.key(7)
    found = crossed_training(Lab(tmp_path), "train", key, problem, optim, cells, seeds=2, chunk=3)
    hyper = ToyHyper(*(jnp.asarray(np.concatenate([a, a]), float) for a in cells))
    members = crossed_members(key, optim.learning_rate, hyper, seeds=2)
    plan = Plan(problem, optim, 3, Mapping.vmap, common=2)
    state, step = init(plan, members), advance(plan, members)
    for _ in range(2):
        state, _ = step(state)
    np.testing.assert_array_equal(found.models.W, state.params.W)
    assert found.training_loss.shape == (2, 4) and found.alive.all()
    W = np.asarray(found.models.W)
    assert not np.allclose(W[0], W[1]) and not np.allclose(W[0], W[2])


def test_every_seed_has_all_cells_in_their_order() -> None:
    cells = {"a": np.arange(3.0), "b": np.arange(6.0).reshape(3, 2)}
    found = in_every_seed(cells, 2)
    np.testing.assert_array_equal(found["a"], [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(found["b"][3:], cells["b"])


@pytest.mark.parametrize("seeds", [0, 5, -3])
def test_seeds_divide_the_members(seeds: int) -> None:
    with pytest.raises(ValueError, match=f"seeds={seeds} must divide the number of members, 12"):
        crossed_members(jax.random.key(0), 0.1, jnp.arange(12.0), seeds)


def test_file_names_of_arms() -> None:
    assert file_name_of("2 layers, primed") == "2-layers-primed"
    assert file_name_of("1 layer") == "1-layer"
