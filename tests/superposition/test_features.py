"""Norms, interference, dimensionality and classes of neurons, by hand and against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition import features
from circuitax.superposition.features import (
    NeuronClass,
    analytic_errors,
    attack_bound,
    attack_directions,
    dimensionality,
    dimensionality_of_rows,
    gradient_errors,
    input_errors,
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


IMPORTANCE = np.array([1.0, 0.8, 0.5, 1.3])


def model(seed: int = 0) -> tuple[TiedWeights, np.ndarray]:
    rng = np.random.default_rng(seed)
    W, b = rng.normal(size=(2, 4)), 0.2 * rng.normal(size=4)
    return TiedWeights(jnp.asarray(W), jnp.asarray(b)), rng.uniform(size=(6, 4))


def errors_by_hand(weights: TiedWeights, x: np.ndarray, moved: np.ndarray) -> np.ndarray:
    W, b = np.asarray(weights.W), np.asarray(weights.b)
    output = np.maximum(0, moved @ W.T @ W + b)
    return ((output - x) ** 2 * IMPORTANCE).sum(axis=1)


def test_every_analytic_attack_is_the_direction_of_one_output() -> None:
    with jax.enable_x64(True):
        weights, x = model()
        found = np.asarray(analytic_errors(weights, jnp.asarray(x), jnp.asarray(IMPORTANCE), 0.3))
        gram = np.asarray(weights.W).T @ np.asarray(weights.W)
        unit = gram / np.linalg.norm(gram, axis=1, keepdims=True)
        wanted = [errors_by_hand(weights, x, x + s * 0.3 * a) for s in (1, -1) for a in unit]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert found.max() > 1.01 * errors_by_hand(weights, x, x).max()


def test_an_ignored_feature_has_no_direction_and_a_finite_gradient() -> None:
    with jax.enable_x64(True):
        W = jnp.array([[1.0, 0.0, -1.0], [0.5, 0.0, 0.2]])
        assert not np.asarray(attack_directions(W))[1].any()
        slope = jax.jacobian(attack_directions)(W)
    assert np.isfinite(slope).all()


def test_a_model_without_superposition_loses_the_square_of_the_strength() -> None:
    with jax.enable_x64(True):
        weights = TiedWeights(jnp.eye(2, 4), jnp.array([0.0, 0, 0.1, 0.1]))
        x = jnp.asarray(np.random.default_rng(1).uniform(size=(5, 4)))
        ones = jnp.ones(4)
        worst = np.asarray(analytic_errors(weights, x, ones, 0.2)).max(axis=0)
        clean = np.asarray(input_errors(weights, x, ones, jnp.zeros(4)))
    np.testing.assert_allclose(worst - clean, 0.04, rtol=1e-9)


def test_ascent_comes_near_the_best_of_all_directions_and_below_the_bound() -> None:
    with jax.enable_x64(True):
        weights = TiedWeights(jnp.array([[1.1, -0.4], [0.3, 0.9]]), jnp.array([0.1, 0.2]))
        x, ones = np.random.default_rng(2).uniform(0.2, 1, size=(4, 2)), jnp.ones(2)
        climb = jax.jit(gradient_errors, static_argnames="n_steps")
        found = np.asarray(climb(weights, jnp.asarray(x), ones, 0.1, n_steps=40))
        clean = input_errors(weights, jnp.asarray(x), ones, jnp.zeros(2))
        bound = np.asarray(attack_bound(weights, clean, ones, 0.1))
        turn = np.linspace(0, 2 * np.pi, 2000)
        circle = 0.1 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        every = [
            np.asarray(input_errors(weights, jnp.asarray(x), ones, jnp.asarray(c)))
            for c in circle[::10]
        ]
    best = np.max(every, axis=0)
    np.testing.assert_allclose(found, best, rtol=1e-3)
    assert (found <= bound).all() and (bound < 3 * found).all()
    assert (found > 1.05 * np.asarray(clean)).all()
