import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.expected_loss import linear_loss

DENSITY = np.array([0.9, 0.4, 0.15])
IMPORTANCE = np.array([1.0, 0.7, 0.2])


def by_patterns(W, b, density, importance):
    """Sum over all patterns, with Gauss nodes exact for the square."""
    nodes, gauss = np.polynomial.legendre.leggauss(2)
    nodes, gauss = (nodes + 1) / 2, gauss / 2
    total, n = 0.0, len(density)
    for index in np.ndindex(*(3,) * n):  # 0: off, 1 and 2: on, at a node
        x = np.array([0.0 if k == 0 else nodes[k - 1] for k in index])
        weight = np.prod(
            [1 - p if k == 0 else p * gauss[k - 1] for k, p in zip(index, density, strict=True)]
        )
        total += weight * importance @ (x - W.T @ (W @ x) - b) ** 2
    return total


def test_linear_loss_is_the_sum_over_patterns(rng):
    W, b = rng.normal(size=(2, 3)), rng.normal(size=3)
    wanted = by_patterns(W, b, DENSITY, IMPORTANCE)
    with jax.enable_x64(True):
        arrays = (TiedWeights(jnp.asarray(W), jnp.asarray(b)), DENSITY, IMPORTANCE)
        arrays = jax.tree.map(jnp.asarray, arrays)
        assert float(linear_loss(*arrays)) == pytest.approx(wanted, rel=1e-12)
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf / 3]), arrays)
        both = jax.jit(jax.vmap(linear_loss))(*stacked)
        second = by_patterns(2 * W / 3, 2 * b / 3, 2 * DENSITY / 3, 2 * IMPORTANCE / 3)
        np.testing.assert_allclose(both, [wanted, second], rtol=1e-12)


def test_keeping_the_top_features_is_stationary_whatever_the_density():
    with jax.enable_x64(True):
        weights = TiedWeights(jnp.eye(3)[:2], jnp.asarray([0, 0, DENSITY[2] / 2]))
        slope = jax.grad(linear_loss)(weights, jnp.asarray(DENSITY), jnp.asarray(IMPORTANCE))
        np.testing.assert_allclose(slope.W, np.zeros((2, 3)), atol=1e-15)
        np.testing.assert_allclose(slope.b, np.zeros(3), atol=1e-15)


def test_a_density_above_one_is_refused():
    weights = TiedWeights(jnp.ones((1, 2)), jnp.zeros(2))
    with pytest.raises(ValueError, match=r"density.* must be in \[0, 1\]"):
        linear_loss(weights, jnp.array([0.5, 1.5]), jnp.array([1.0, 2.0]))
