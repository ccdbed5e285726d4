"""What is measured of all members at once is what is measured of each alone."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.members import (
    crossed_members,
    crossed_training,
    drawn_by_each,
    each_member,
    each_with_own,
    file_name_of,
    in_every_seed,
    member_of,
    n_members,
    one_by_one,
    padded,
    split_members,
    stack_named,
    stack_ragged,
)
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.records.estimate import mean_estimate
from circuitax.training.ensemble import Mapping, Plan, advance, init
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem


def size(weights: dict, x: jax.Array, scale: float) -> dict[str, jax.Array]:
    out = weights["W"] @ x * scale + weights["b"]
    return {"norm": jnp.linalg.norm(out), "out": out}


@pytest.fixture
def members(rng: np.random.Generator) -> dict[str, jax.Array]:
    return {"W": jnp.asarray(rng.normal(size=(5, 3, 4))), "b": jnp.asarray(rng.normal(size=(5, 3)))}


def test_all_at_once_one_by_one_and_by_hand(members: dict, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=4))
    together = each_member(size, x, 2.0)(members)
    alone = one_by_one(size, members, x, 2.0)
    W, b = np.asarray(members["W"]), np.asarray(members["b"])
    by_hand = np.einsum("mij,j->mi", W, 2.0 * np.asarray(x)) + b
    for found in (together, alone):
        np.testing.assert_allclose(found["out"], by_hand, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["norm"], np.linalg.norm(by_hand, axis=1), rtol=1e-5)
    assert isinstance(alone["out"], np.ndarray)


def test_what_members_share_is_no_constant_of_the_code(members: dict) -> None:
    x = jnp.arange(4.0)
    traced = []

    def note(weights: dict, x: jax.Array) -> jax.Array:
        traced.append(isinstance(x, jax.core.Tracer))
        return weights["W"] @ x

    each_member(note, x)(members)
    assert traced == [True]


def test_members_are_taken_apart(members: dict) -> None:
    assert n_members(members) == 5
    parts = list(split_members(members))
    assert len(parts) == 5
    np.testing.assert_array_equal(parts[3]["W"], members["W"][3])
    np.testing.assert_array_equal(member_of(members, 3)["b"], members["b"][3])
    with pytest.raises(ValueError, match="one leading axis"):
        n_members({"W": np.zeros((2, 3)), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="one leading axis"):
        n_members({"W": np.zeros((2, 3)), "b": np.float64(0)})


def test_each_member_has_its_own_draws_whatever_their_number(members: dict) -> None:
    def draw(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, (4,))

    xs = drawn_by_each(draw, jax.random.key(3), 5)
    assert len(np.unique(np.asarray(xs))) == 20
    np.testing.assert_array_equal(drawn_by_each(draw, jax.random.key(3), 2), xs[:2])
    scales = jnp.arange(5.0)
    found = each_with_own(size, xs, scales)(members)
    for i in range(5):
        alone = size(member_of(members, i), xs[i], float(i))
        np.testing.assert_allclose(found["out"][i], alone["out"], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="n_members=0"):
        drawn_by_each(draw, jax.random.key(3), 0)


def test_an_interval_over_seeds_covers_another_key_where_each_has_its_own_exam() -> None:
    """Models that differ little, exams that differ much: what is measured is their mean score."""
    ability = 0.01 * np.random.default_rng(5).normal(size=8)

    def score(model: jax.Array, exam: jax.Array) -> jax.Array:
        return model + exam.mean()

    def draw(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, (4,))

    misses = {"own": 0, "shared": 0}
    keys = [jax.random.key(seed) for seed in range(40)]
    for key in keys:
        shared = each_member(score, draw(key))(jnp.asarray(ability))
        own = each_with_own(score, drawn_by_each(draw, key, 8))(jnp.asarray(ability))
        for name, samples in (("own", own), ("shared", shared)):
            found = mean_estimate(samples)
            misses[name] += not found.low <= ability.mean() <= found.high
    assert misses["own"] <= 6  # two in forty are expected, and more than six once in 150
    assert misses["shared"] >= 30


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
