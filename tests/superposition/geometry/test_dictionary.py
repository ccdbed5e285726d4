"""Measures of dictionaries, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.dictionaries import cross_cosines, hedging, mean_max_cosine


def test_cosines_do_not_depend_on_norms() -> None:
    rng = np.random.default_rng(1)
    truth, learned = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    learned[2] = 0
    norms = np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(learned, axis=1)[None]
    wanted = truth @ learned.T / np.where(norms > 0, norms, 1)
    with jax.enable_x64(True):
        found = cross_cosines(jnp.asarray(truth), jnp.asarray(learned))
        best = mean_max_cosine(jnp.asarray(truth), jnp.asarray(5 * learned))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    assert float(best) == pytest.approx(wanted.max(axis=1).mean(), rel=1e-12)


def test_hedging_is_the_part_of_another_feature() -> None:
    with jax.enable_x64(True):
        truth = jnp.eye(4)
        pure = jnp.eye(4)[jnp.array([2, 0])]
        mixed = jnp.array([[0.8, 0.6, 0, 0], [0, 0, 1.0, -0.5]])
        assert float(hedging(truth, pure)) == 0
        assert float(hedging(truth, mixed)) == pytest.approx((0.6 + 0) / 2, rel=1e-12)
        # What two true directions have in common is not counted as mixing.
        oblique = jnp.array([[1.0, 0.0], [0.6, 0.8]])
        assert float(hedging(oblique, oblique)) == pytest.approx(0, abs=1e-12)
