"""The exact expected loss against enumeration, Sobol points and sums over patterns."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import qmc

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.descent import _advance
from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.expected_loss import (
    Configuration,
    Padding,
    batch_size,
    batches,
    best_configuration,
    configuration_losses,
    exact_losses,
    expected_loss,
    linear_loss,
    padded_size,
    partial_loss,
    unpacked,
)
from circuitax.superposition.optimum import find_optimum

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


def test_sizes_are_rounded_up_by_less_than_a_quarter():
    near = {1: 1, 2: 2, 3: 3, 7: 7, 8: 8, 9: 10, 10: 10, 11: 12, 16: 16, 17: 20}
    assert {n: padded_size(n) for n in near} == near
    assert all(n <= padded_size(n) and 4 * padded_size(n) < 5 * n for n in range(1, 5000))
    assert len({padded_size(n) for n in range(6, 62)}) == 15


def test_vectors_hold_models_of_any_shape_and_give_them_back(rng):
    padding = Padding(9, 17)
    models = TiedWeights(rng.normal(size=(2, 3, 9, 17)), rng.normal(size=(2, 3, 17)))
    vectors = padding.pack(models)
    assert vectors.shape == (2, 3, 10 * 20 + 20)
    back = padding.unpack(vectors)
    np.testing.assert_allclose(back.W, models.W, rtol=1e-6)
    np.testing.assert_allclose(back.b, models.b, rtol=1e-6)
    filled = unpacked(jnp.asarray(vectors), padding.rows)
    np.testing.assert_allclose(filled.W[1, 2, :9, :17], models.W[1, 2], rtol=1e-6)
    assert not filled.W[..., 9:, :].any() and not filled.W[..., 17:].any()
    assert not filled.b[..., 17:].any() and not padding.fill(np.ones((4, 17)))[:, 17:].any()


def test_what_fills_up_changes_no_loss_and_no_gradient(x64, rng):
    n, m = 9, 3
    plain = TiedWeights(jnp.asarray(0.6 * rng.normal(size=(m, n))), jnp.asarray(rng.normal(size=n)))
    p, weight = rng.uniform(0.1, 0.9, n), rng.uniform(0.3, 1, n)
    padding = Padding(m, n)

    def loss(weights, density, importance):
        return expected_loss(weights, density, importance, n_terms=32).value

    wanted, slope = jax.jit(jax.value_and_grad(loss))(plain, jnp.asarray(p), jnp.asarray(weight))
    filled = unpacked(jnp.asarray(padding.pack(plain)), padding.rows)
    settings = jnp.asarray(padding.fill(p)), jnp.asarray(padding.fill(weight))
    value, gradient = jax.jit(jax.value_and_grad(loss))(filled, *settings)
    assert value == pytest.approx(float(wanted), rel=1e-13)
    np.testing.assert_allclose(gradient.W[:, :n], slope.W, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(gradient.b[:n], slope.b, rtol=1e-10, atol=1e-13)
    assert not np.asarray(gradient.W[:, n:]).any() and not np.asarray(gradient.b[n:]).any()

    @jax.jit
    def share(first):  # 32 terms as 4 shares of 8
        return partial_loss(filled, *settings, n_terms=32, block=8, first=first)

    shares = [float(share(first)) for first in (0, 8, 16, 24)]
    assert sum(shares) == pytest.approx(float(wanted), rel=1e-13)
    assert abs(sum(shares[:3]) / float(wanted) - 1) > 1e-12, "every share counts"


def test_batches_hold_every_member_once_and_are_of_one_size():
    assert [batch_size(n) for n in (1, 2, 4, 5, 256, 257)] == [2, 2, 4, 8, 256, 256]
    found = batches(np.array([3, 1, 4, 5, 9]), 2)
    np.testing.assert_array_equal(np.stack(found), [[3, 1], [4, 5], [9, 9]])
    assert batches(np.array([], int), 4) == []


def test_near_sizes_share_one_program_for_search_and_polish(x64):
    before = _advance._cache_size()
    for n in (9, 10):
        density = jnp.full((1, n), 0.1)
        found = find_optimum(jax.random.key(0), density, jnp.ones((1, n)), n_hidden=3, n_restarts=1)
        assert found.weights.W.shape == (1, 3, n) and found.restart_loss.shape == (1, 1)
        # Better than three features with a dimension each, and nothing of the others.
        assert 0 < float(found.loss[0]) < (n - 3) * (0.1 / 3 - 0.1**2 / 4)
    assert _advance._cache_size() == before + 1


GRID = np.geomspace(0.01, 1, 40)


@pytest.mark.parametrize(("r", "p"), [(0.3, 0.2), (1.0, 0.7), (4.0, 1.0)])
def test_T4_losses_are_those_of_the_configurations(x64, r, p):
    losses = {n: configuration_losses(jnp.array(p), jnp.array(r), n) for n in (2, 3)}
    half = p / 2
    models = [
        (2, Configuration.ignore_first, [[0, 1]], [half, 0]),
        (2, Configuration.ignore_last, [[1, 0]], [0, half]),
        (2, Configuration.pair_last, [[1, -1]], [0, 0]),
        (3, Configuration.ignore_last, [[1, 0, 0], [0, 1, 0]], [0, 0, half]),
        (3, Configuration.pair_first, [[1, -1, 0], [0, 0, 1]], [0, 0, 0]),
        (3, Configuration.pair_last, [[1, 0, 0], [0, 1, -1]], [0, 0, 0]),
    ]
    for n, which, W, b in models:
        importance = [*[1.0] * (n - 1), r]
        exact = enumerated_loss(W, b, [p] * n, importance)
        assert float(losses[n][which]) == pytest.approx(exact, rel=1e-13)
    assert losses[2][Configuration.pair_first] == jnp.inf


def test_T4_all_phases_meet_at_the_triple_point(x64):
    r, p = jnp.array(1.0), jnp.array(4 / 7)
    for n in (2, 3):
        losses = configuration_losses(p, r, n)
        finite = losses[jnp.isfinite(losses)]
        np.testing.assert_allclose(finite, finite[0], rtol=1e-13)


@pytest.mark.parametrize("n", [2, 3])
def test_T4_boundaries_part_the_best_configurations(x64, n):
    p, r = (jnp.asarray(v.ravel()) for v in np.meshgrid(GRID, np.geomspace(0.1, 10, 41)))
    which, loss = best_configuration(p, r, n)
    np.testing.assert_allclose(loss, configuration_losses(p, r, n).min(axis=-1))
    # Algebra on the four losses; above p = 4/7 nothing is shared.
    lower = jnp.where(p < 4 / 7, 2 * p / (4 - 5 * p), 1)
    upper = jnp.where((p < 4 / 7) & (n == 2), (4 - 5 * p) / (2 * p), 1)
    ignored, shared = r < lower, (r > lower) & (r < upper)
    clear = np.abs(np.log(r)) > 1e-9  # on r = 1 configurations tie
    np.testing.assert_array_equal((which == 1)[clear], ignored[clear])
    np.testing.assert_array_equal((which == 3)[clear], shared[clear])
    # The last feature is dedicated: for n = 2 the first is ignored, for n = 3 two ways exist.
    dedicated = {Configuration.ignore_first} | ({Configuration.pair_first} if n == 3 else set())
    kept = np.asarray((r > upper) & clear)
    assert {Configuration(v) for v in np.asarray(which)[kept].tolist()} == dedicated
