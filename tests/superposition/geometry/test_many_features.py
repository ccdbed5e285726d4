"""Dimensionality from second moments is that from all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.superposition.features import dimensionality, dimensionality_of_rows


def test_it_is_that_of_all_pairs(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(9, 3))
    rows[4] = 0
    pairs = (rows @ rows.T) ** 2
    live = np.arange(9) != 4
    wanted = np.zeros(9)
    wanted[live] = (rows[live] ** 2).sum(axis=1) ** 2 / pairs[live].sum(axis=1)
    with jax.enable_x64(True):
        found = jax.jit(dimensionality_of_rows)(jnp.asarray(rows))
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        np.testing.assert_allclose(found, dimensionality(jnp.asarray(rows).T), rtol=1e-12)
        slope = jax.grad(lambda x: dimensionality_of_rows(x).sum())(jnp.asarray(rows))
    assert wanted.sum() <= 3 and np.isfinite(slope).all()


def test_a_digon_has_half_a_dimension_each() -> None:
    with jax.enable_x64(True):
        rows = jnp.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 2.0, 0]])
        np.testing.assert_allclose(dimensionality_of_rows(rows), [0.5, 0.5, 1], rtol=1e-12)
