"""Batches of rows of an array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.sparse import VectorSource


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
