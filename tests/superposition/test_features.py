"""Norms, interference, dimensionality and classes of neurons, by hand and against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition import features
from circuitax.superposition.features import (
    NeuronClass,
    dimensionality,
    dimensionality_of_rows,
    neuron_classes,
    neurons_per_feature,
    purity,
)


def polygon(k, norm=1.0):
    angle = 2 * np.pi * np.arange(k) / k
    return norm * np.stack([np.cos(angle), np.sin(angle)])


def test_dimensionality_of_polygons_is_two_over_k(x64):
    for k in (3, 5, 6):
        W = jnp.asarray(polygon(k, 1.135))
        np.testing.assert_allclose(features.dimensionality(W), 2 / k, rtol=1e-13)
    assert float(features.dimensions_per_feature(jnp.asarray(polygon(5, 1.135)))) == pytest.approx(
        2 / (5 * 1.135**2), rel=1e-13
    )


def test_T6_dimensionality_never_exceeds_leverage_and_sums_to_at_most_the_rank(x64, rng):
    W = jnp.asarray(rng.normal(size=(3, 7)))
    D, leverage = features.dimensionality(W), np.diag(np.linalg.pinv(W) @ W)
    assert (leverage + 1e-12 >= D).all() and (leverage - 1e-3 > D).any()
    assert leverage.sum() == pytest.approx(3, rel=1e-12)
    capacity = np.linalg.norm(W, axis=0) ** 4 / np.sum(np.asarray(W.T @ W) ** 2, axis=1)
    np.testing.assert_allclose(D, capacity, rtol=1e-12)


def test_zero_features_have_zero_measures_and_finite_gradients(x64):
    W = jnp.array([[1.0, 0.0, 0.3], [0.0, 0.0, 0.4]])
    for measure in (
        features.norms,
        features.interference_sq,
        features.interference_root,
        features.dimensionality,
    ):
        assert float(measure(W)[1]) == 0
        assert np.isfinite(jax.grad(lambda V, f=measure: f(V).sum())(W)).all(), measure.__name__


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


def test_E17_interference_of_the_text_is_the_square_of_that_of_the_code(x64: None) -> None:
    W = jnp.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.0]])
    squared, root = features.interference_sq(W), features.interference_root(W)
    np.testing.assert_allclose(squared, [0.36, 0.36, 0], atol=1e-12)
    np.testing.assert_allclose(root, [0.6, 0.6, 0], atol=1e-12)
    assert np.abs(np.asarray(squared - root))[:2].min() > 0.2, "one name, two colours"


def test_E39_a_triangular_bipyramid_has_five_vertices(x64: None) -> None:
    """Three at 2/3 and two at 1/2 fill three dimensions: 5 × 3/5; the caption prints 6 × 3/5."""
    angle = 2 * np.pi * np.arange(3) / 3
    triangle = np.stack([np.cos(angle), np.sin(angle), np.zeros(3)])
    poles = np.array([[0, 0], [0, 0], [1, -1]])
    shares = np.asarray(features.dimensionality(jnp.asarray(np.hstack([triangle, poles]))))
    np.testing.assert_allclose(shares, [2 / 3] * 3 + [1 / 2] * 2, atol=1e-12)
    assert shares.sum() == pytest.approx(3) == 5 * 3 / 5
    assert shares.sum() != pytest.approx(6 * 3 / 5)
