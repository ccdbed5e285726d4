"""Attacks on a toy model, by hand and against the best of all directions."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.attacks import (
    analytic_errors,
    attack_bound,
    attack_directions,
    gradient_errors,
    input_errors,
)

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
