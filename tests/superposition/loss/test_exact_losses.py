"""Exact losses of an ensemble in float32 are those of each network in float64."""

import jax.numpy as jnp
import numpy as np

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.exact_losses import exact_losses


def test_every_member_by_enumeration_of_all_patterns(rng: np.random.Generator) -> None:
    W = rng.normal(size=(3, 2, 4)).astype(np.float32)
    b = rng.normal(size=(3, 4)).astype(np.float32) / 4
    density, importance = (rng.uniform(0.2, 0.9, (3, 4)).astype(np.float32) for _ in "pI")
    weights = TiedWeights(jnp.asarray(W), jnp.asarray(b))
    found = exact_losses(weights, jnp.asarray(density), jnp.asarray(importance))
    assert found.dtype == np.float64
    wanted = [
        enumerated_loss(*(np.asarray(a[i], np.float64) for a in (W, b, density, importance)))
        for i in range(3)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
