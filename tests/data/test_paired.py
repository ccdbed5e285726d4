"""Features in pairs: their frequencies, alone and together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.sparse import paired_features


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
    with pytest.raises(ValueError, match=r"together=1.5"):
        paired_features(jnp.zeros((1, 1)), jnp.zeros((1, 2)), 0.2, 1.5)
