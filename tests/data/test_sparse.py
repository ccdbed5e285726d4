"""Sparse features, features in pairs, rows of an array."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import SparseTask, VectorSource, paired_features


def test_a_number_and_a_list_of_one_are_the_same_task() -> None:
    assert SparseTask(sparsity=0.7) == SparseTask(sparsity=[0.7]) == SparseTask(sparsity=(0.7,))
    assert hash(SparseTask(sparsity=[0, 0.7])) == hash(SparseTask(sparsity=(0.0, 0.7)))
    assert dataclasses.replace(SparseTask(sparsity=[0.2]), batch_size=3).sparsity == (0.2,)


def test_density_and_importance() -> None:
    task = SparseTask(sparsity=[0, 0.9], importance_base=[1, 0.5])
    np.testing.assert_allclose(task.density, [1.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(task.importance(3), [[1, 1, 1], [1, 0.5, 0.25]])


@pytest.mark.parametrize("together", [0.0, 0.2, 0.7, 1.0])
def test_frequencies_are_those_of_the_law(together: float) -> None:
    n, p = 40_000, 0.2
    keys = jax.random.split(jax.random.key(0))
    pair, value = jax.random.uniform(keys[0], (n, 2)), jax.random.uniform(keys[1], (n, 4))
    x = np.asarray(jax.jit(paired_features)(pair, value, p, together))
    on = x > 0
    error = 4 * np.sqrt(p / n)
    np.testing.assert_allclose(on.mean(axis=0), p, atol=error)
    np.testing.assert_allclose((on[:, 0] & on[:, 1]).mean(), p * together, atol=error)
    np.testing.assert_allclose((on[:, 1] & on[:, 2]).mean(), p * p, atol=error)
    assert x[on].mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(x[on], np.asarray(value)[on])


def test_an_odd_number_of_features_leaves_one_alone() -> None:
    x = paired_features(jnp.array([[0.05, 0.05]]), jnp.array([[0.3, 0.4, 0.5]]), 0.2, 0.0)
    np.testing.assert_allclose(x, [[0.3, 0, 0.5]], rtol=1e-6)


def test_a_batch_is_rows_that_follow_from_the_key(rng: np.random.Generator) -> None:
    rows = jnp.asarray(rng.normal(size=(7, 3)), jnp.float32)
    source = VectorSource(400, rows)
    batch = np.asarray(jax.jit(source)(jax.random.key(2)))
    which = (batch[:, None] == np.asarray(rows)[None]).all(axis=2)
    assert (which.sum(axis=1) == 1).all() and which.any(axis=0).all()
    np.testing.assert_array_equal(batch, source(jax.random.key(2)))
    assert (batch != np.asarray(source(jax.random.key(3)))).any()


def test_sources_are_equal_by_their_rows(rng: np.random.Generator) -> None:
    rows = jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)
    same = VectorSource(2, rows + 0)
    assert VectorSource(2, rows) == same and hash(VectorSource(2, rows)) == hash(same)
    assert VectorSource(2, rows.at[3, 2].add(1)) != same != VectorSource(3, rows)
    assert VectorSource(2, rows.reshape(3, 4)) != same
    with pytest.raises(ValueError, match="batch=0 must be at least 1"):
        VectorSource(0, rows)
    with pytest.raises(ValueError, match=r"rows has shape \(0, 3\)"):
        VectorSource(2, rows[:0])
