"""The exact expected loss against enumeration, Sobol points and sums over patterns."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import qmc

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.expected_loss import expected_loss, linear_loss

LOSS = jax.jit(expected_loss, static_argnames=("n_terms", "convention"))
DIGONS = np.array([[1.0, -1, 0, 0, 0], [0, 0, 1, -1, 0]])


def random_model(rng, n=5, m=2):
    W, b = 0.6 * rng.normal(size=(m, n)), 0.2 * rng.normal(size=n)
    return W, b, rng.uniform(0.1, 0.9, n), rng.uniform(0.3, 1, n)


def as_arguments(W, b, p, importance):
    W, b, p, importance = (jnp.asarray(v) for v in (W, b, p, importance))
    return TiedWeights(W, b), p, importance


def perturbed(size):
    rng = np.random.default_rng(0)
    return DIGONS + size * rng.normal(size=DIGONS.shape)


MODELS = {
    "random": lambda rng: random_model(rng),
    "dense": lambda rng: (*random_model(rng)[:2], np.ones(5), np.ones(5)),
    "never on": lambda rng: (*random_model(rng)[:2], np.zeros(5), np.ones(5)),
    "digons": lambda rng: (DIGONS, np.array([0, 0, 0, 0, 0.1]), np.full(5, 0.3), np.ones(5)),
    "digons, 1e-7 off": lambda rng: (perturbed(1e-7), np.zeros(5), np.full(5, 0.3), np.ones(5)),
    "digons, 1e-2 off": lambda rng: (perturbed(1e-2), np.zeros(5), np.full(5, 0.3), np.ones(5)),
    "zeros": lambda rng: (np.zeros((2, 5)), np.zeros(5), np.full(5, 0.3), np.ones(5)),
}


@pytest.mark.parametrize("name", MODELS)
def test_series_agrees_with_enumeration(x64, rng, name):
    model = MODELS[name](rng)
    exact = enumerated_loss(*model)
    loss = LOSS(*as_arguments(*model), n_terms=512)
    assert abs(float(loss.value) - exact) < 1e-9
    assert abs(float(loss.value) - exact) <= float(loss.error) + 1e-12


@pytest.mark.parametrize("name", ["random", "pentagon"])
def test_error_estimate_bounds_the_error_and_is_far_too_large(x64, rng, name):
    angle = 2 * np.pi * np.arange(5) / 5
    regular = 1.135 * np.stack([np.cos(angle), np.sin(angle)])
    pentagon = regular, np.full(5, -0.246), np.full(5, 0.05), np.ones(5)
    model = pentagon if name == "pentagon" else random_model(rng)
    exact = enumerated_loss(*model)
    for n_terms in (8, 32):
        loss = LOSS(*as_arguments(*model), n_terms=n_terms)
        error = abs(float(loss.value) - exact)
        assert 1e-12 < error <= float(loss.error) < 1e-3
    assert error < 1e-6, "of 32 terms"
    assert 10 < float(loss.error) / error < 5000


def test_two_features_need_no_series(x64, rng):
    model = random_model(rng, 2, 1)
    loss = LOSS(*as_arguments(*model), n_terms=0)
    assert float(loss.value) == pytest.approx(enumerated_loss(*model), rel=1e-14)
    assert loss.error == 0


def test_forty_features_against_sobol_points_within_their_standard_error(x64, rng):
    n, m = 40, 8
    W = rng.normal(size=(m, n)) / m**0.5
    b, p, importance = -0.1 * rng.uniform(size=n), np.full(n, 0.05), rng.uniform(size=n)
    means = []
    for seed in range(8):
        u = qmc.Sobol(n, seed=seed).random_base2(14)
        x = np.where(u < p, u / p, 0)
        means.append(((x - np.maximum(x @ W.T @ W + b, 0)) ** 2 @ importance).mean())
    error = np.std(means, ddof=1) / 8**0.5
    loss = LOSS(*as_arguments(W, b, p, importance), n_terms=256)
    assert abs(float(loss.value) - np.mean(means)) < 5 * error
    assert error < 2e-3 * np.mean(means)
    assert float(loss.error) < 1e-5


def test_chunked_outputs_equal_outputs_together(x64, rng, monkeypatch):
    arguments = as_arguments(*random_model(rng))
    together = LOSS(*arguments, n_terms=512)
    monkeypatch.setattr("circuitax.superposition.expected_loss.TOGETHER", 2 * 5 * 512)
    chunked = jax.jit(partial(expected_loss, n_terms=512))(*arguments)
    assert float(chunked.value) == pytest.approx(float(together.value), rel=1e-14)


@jax.jit
def value(weights, density, importance):
    return expected_loss(weights, density, importance, n_terms=256).value


GRADIENT = jax.jit(jax.grad(value, argnums=(0, 1)))


def test_gradient_is_that_of_the_enumeration(x64, rng):
    W, b, p, importance = random_model(rng)
    d_weights, d_density = GRADIENT(*as_arguments(W, b, p, importance))
    h = 1e-5
    for gradient, array, at in ((d_weights.W, W, (1, 2)), (d_weights.b, b, 3), (d_density, p, 0)):
        values = []
        for step in (h, -2 * h):
            array[at] += step
            values.append(enumerated_loss(W, b, p, importance))
        array[at] += h
        assert float(gradient[at]) == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-8)


def test_E17_sum_and_mean_conventions_differ_by_the_number_of_features(x64, rng):
    arguments = as_arguments(*random_model(rng))
    total = LOSS(*arguments, n_terms=8, convention="sum")
    mean = LOSS(*arguments, n_terms=8, convention="mean")
    assert float(total.value) == pytest.approx(5 * float(mean.value), rel=1e-14)
    assert float(total.error) == pytest.approx(5 * float(mean.error), rel=1e-14)
    assert float(LOSS(*arguments, n_terms=8).value) == float(total.value)


@pytest.mark.parametrize(("n", "n_terms"), [(5, -1), (5, 0), (3, 0), (2, -1)])
def test_too_few_terms_are_refused_also_under_jit(rng, n, n_terms):
    """Without a series the value of three or more features is wrong, and its error unknown."""
    arguments = as_arguments(*random_model(rng, n))
    for loss in (expected_loss, LOSS):
        with pytest.raises(ValueError, match=f"n_terms={n_terms} must be at least 1 for n_f.*={n}"):
            loss(*arguments, n_terms=n_terms)


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
