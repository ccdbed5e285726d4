"""Neurons of one feature and of several, on weights set by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.features import (
    NeuronClass,
    neuron_classes,
    neurons_per_feature,
    purity,
)

W = np.array([[0.9, 0.1, 0, 0], [0, 1, -1, 0], [0.01, 0, 0.02, 0], [0, 0, 0, -2], [1, 1, 1, 1]])


def test_purity_is_the_share_of_the_largest_square() -> None:
    with jax.enable_x64(True):
        found = jax.jit(purity)(jnp.asarray(W))
    np.testing.assert_allclose(found, [0.81 / 0.82, 0.5, 0.8, 1, 0.25], rtol=1e-12)
    assert float(purity(jnp.zeros((1, 3)))[0]) == 0


def test_neurons_are_classified_by_norm_and_purity() -> None:
    dead, mono, poly = NeuronClass
    found = jax.vmap(neuron_classes)(jnp.asarray(np.stack([W, W[::-1]])))
    assert found[0].tolist() == [mono, poly, dead, mono, poly]
    assert found[1].tolist() == found[0].tolist()[::-1]
    strict = neuron_classes(jnp.asarray(W), least_norm=0.001, least_purity=0.99)
    assert strict.tolist() == [poly, poly, poly, mono, poly]


def test_neurons_of_a_feature_are_counted_by_weight() -> None:
    assert neurons_per_feature(jnp.asarray(W)).tolist() == [2, 2, 1, 1]
    assert neurons_per_feature(jnp.asarray(W), least_share=0.48).tolist() == [1, 2, 1, 1]
    assert neurons_per_feature(jnp.zeros((2, 3))).tolist() == [0, 0, 0]


def test_thresholds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"least_purity=0.5"):
        neuron_classes(jnp.asarray(W), least_purity=0.5)
    with pytest.raises(ValueError, match=r"least_share=0"):
        neurons_per_feature(jnp.asarray(W), least_share=0.0)
