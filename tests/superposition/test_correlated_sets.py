"""Features in sets: losses against a direct simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.correlated_sets import set_loss, set_optimum, set_patterns
from circuitax.superposition.expected_loss import expected_loss

W = np.array([[0.9, -0.5, 0.4, 0.1], [0.2, 0.8, -0.7, 0.3]])
B = np.array([0.1, -0.1, 0.05, 0.2])


def models():
    return TiedWeights(jnp.asarray(W), jnp.asarray(B))


@pytest.mark.parametrize("anticorrelated", [False, True])
def test_sets_of_one_are_independent_features(anticorrelated):
    with jax.enable_x64(True):
        patterns = set_patterns(4, 1, anticorrelated=anticorrelated, log2_points=11)
        found = jax.jit(set_loss)(models(), jnp.asarray(0.3), patterns)
        exact = expected_loss(models(), jnp.full(4, 0.3), jnp.ones(4), n_terms=64).value
    assert float(found) == pytest.approx(float(exact), rel=1e-3)


@pytest.mark.parametrize("anticorrelated", [False, True])
def test_pairs_are_those_of_a_direct_simulation(anticorrelated):
    p, n = 0.4, 400_000
    random = np.random.default_rng(5)
    on = random.random((n, 2)) < p
    member = random.integers(0, 2, (n, 2))
    kept = on[:, :, None] & ((member[:, :, None] == [0, 1]) | (not anticorrelated))
    x = kept.reshape(n, 4) * random.random((n, 4))
    errors = ((x - np.maximum(x @ W.T @ W + B, 0)) ** 2).sum(axis=1)
    with jax.enable_x64(True):
        patterns = set_patterns(2, 2, anticorrelated=anticorrelated, log2_points=12)
        found = float(set_loss(models(), jnp.asarray(p), patterns))
    assert abs(found - errors.mean()) < 4 * errors.std() / n**0.5


def test_one_anticorrelated_pair_is_a_digon_at_its_optimum():
    with jax.enable_x64(True):
        patterns = set_patterns(1, 2, anticorrelated=True, log2_points=6)
        density = jnp.array([0.3, 0.9])
        found = set_optimum(jax.random.key(0), density, patterns, n_hidden=1, n_restarts=6)
        found = jax.tree.map(np.asarray, found)
    assert (found.weights.W.prod(axis=(1, 2)) < -0.95).all()  # never on together: no loss at all
    np.testing.assert_allclose(found.loss, 0, atol=1e-6)
    assert found.restart_loss.shape == (2, 6)
