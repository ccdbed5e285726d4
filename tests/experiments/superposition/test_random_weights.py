"""Weights of nulls: dimensionalities are those of the library, norms those asked for."""

import jax.numpy as jnp
import numpy as np

from circuitax.superposition.features import dimensionality
from experiments.superposition.shared.random_weights import (
    dimensionalities,
    normal_weights,
    same_norms,
)


def test_dimensionalities_are_those_of_the_library(x64: None) -> None:
    W = normal_weights(np.random.default_rng(0), 0.7, 3, 4, 9)
    W[1, :, 2] = 0
    found = dimensionalities(W)
    for one, row in zip(W, found, strict=True):
        np.testing.assert_allclose(row, dimensionality(jnp.asarray(one)), rtol=1e-10)
    assert found[1, 2] == 0 and (found.sum(axis=1) <= 4 + 1e-12).all()
    assert abs(W[0].std() / 0.7 - 1) < 0.3


def test_random_directions_keep_the_norm_of_each_feature() -> None:
    W = np.random.default_rng(1).normal(size=(5, 2, 6)) * np.arange(6)
    turned = same_norms(np.random.default_rng(2), W)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(W, axis=1))
    cosine = np.sum(turned * W, axis=1)[:, 1:] / np.sum(W**2, axis=1)[:, 1:]
    assert cosine.min() < -0.5 and cosine.max() > 0.5 and abs(cosine).max() <= 1 + 1e-12
