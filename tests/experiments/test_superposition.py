"""Superposition: training problems against NumPy, polygons and lines whose answer is known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr

from circuitax.kernel.weights import TiedWeights
from circuitax.models.autoencoder import DecomposedMaps
from circuitax.models.toy import ToySpec
from circuitax.superposition.kgons import kgon_weights, one_hot_loss, optimal_kgon
from circuitax.training.toy import ToyHyper
from experiments.superposition.kgons.experiment import OneHotBatch, OneHotHyper, OneHotToy
from experiments.superposition.kgons.readings import kgon_losses, nearest_kgon, plateaus
from experiments.superposition.phase_proof.experiment import located
from experiments.superposition.shared.kinks import kinks
from experiments.superposition.toy_abs.experiment import AbsoluteToy
from experiments.superposition.toy_adversarial.experiment import AdversarialToy, AttackedHyper
from experiments.superposition.toy_decomposition.problem import Decomposition, TargetHyper

# --- Stochastic parameter decomposition: each term, one subcomponent and sample after the other.

RNG = np.random.default_rng(2)
W, MIDDLE = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 2))


def target():
    maps = tuple(jnp.asarray(M) for M in (W.T, MIDDLE, W))
    b, p = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.5, 0.6, 0.7])
    return TargetHyper(maps, b, p, jnp.asarray(0.3))


def raw_importance(part, a):
    out = np.zeros((len(a), len(part["V"])))
    for s, sample in enumerate(a):
        for c, read in enumerate(part["V"] @ sample):
            z = part["gate_in"][:, c] * read + part["gate_bias"][:, c]
            out[s, c] = (z * ndtr(z)) @ part["gate_out"][:, c] + part["gate_end"][c]
    return out


def outputs(maps, b, x):
    for part in maps:
        x = part(x)
    return np.maximum(0, x + b)


def test_each_term_of_the_decomposition_loss(rng, x64):
    problem = Decomposition(DecomposedMaps((3, 2, 2, 3), 4, d_gate=5), power=2, batch_size=6)
    hyper = target()
    params = jax.jit(problem.init)(jax.random.key(0), hyper)
    params = jax.tree.map(lambda a: np.asarray(a) + rng.normal(size=a.shape), params)
    batch = jax.jit(problem.batch)(jax.random.key(1), 7)
    found, loss = jax.jit(lambda *args: (problem.terms(*args), problem.loss(*args)))(
        params, batch, hyper
    )
    u, r, b, p = (np.asarray(a) for a in (*batch, hyper.b, hyper.density))
    maps = [np.asarray(a) for a in hyper.maps]
    parts = [{k: np.asarray(v) for k, v in params[f"maps_{i}"].items()} for i in range(3)]
    x = np.where(u < p[:, None], u / p[:, None], 0).T
    whole = [lambda a, M=M: a @ M for M in maps]
    fed = [x, x @ maps[0], x @ maps[0] @ maps[1]]
    raw = [raw_importance(part, a) for part, a in zip(parts, fed, strict=True)]
    assert any((g < 0).any() for g in raw) and any((g > 1).any() for g in raw)
    low = [np.where(g < 0, 0.01 * g, np.minimum(g, 1)) for g in raw]

    def masked(i, draw):
        mask = low[i] + (1 - low[i]) * r[draw, i]
        return lambda a: sum(
            np.outer(mask[:, c] * (a @ parts[i]["V"][c]), parts[i]["U"][c]) for c in range(4)
        )

    right = outputs(whole, b, x)
    all_masked = outputs([masked(i, 0) for i in range(3)], b, x)
    singles = [outputs([*whole[:i], masked(i, 1), *whole[i + 1 :]], b, x) for i in range(3)]
    sums = [part["V"].T @ part["U"] for part in parts]
    squares = sum(((a - M) ** 2).sum() for a, M in zip(sums, maps, strict=True))
    costs = [np.where(g > 1, 1 + 0.01 * (g - 1), np.maximum(g, 0)) ** 2 for g in raw]
    wanted = (
        squares / (6 + 4 + 6),
        ((all_masked - right) ** 2).mean(),
        np.mean([((one - right) ** 2).mean() for one in singles]),
        sum(cost.sum(axis=1).mean() for cost in costs),
    )
    np.testing.assert_allclose([float(term) for term in found], wanted, rtol=1e-11)
    assert float(loss) == pytest.approx(sum(wanted[:3]) + 0.3 * wanted[3], rel=1e-11)


# --- Adversarial training: attacked inputs, clean targets, a direction that has no gradient.


def test_the_attacked_loss_and_its_gradient_are_those_of_a_fixed_attack(x64):
    problem = AdversarialToy(ToySpec(5, 2), batch_size=7)
    hyper = AttackedHyper(jnp.full(5, 0.6), 0.9 ** jnp.arange(5.0), jnp.asarray(0.4))
    params = problem.init(jax.random.key(0), hyper)
    batch = problem.batch(jax.random.key(1), jnp.asarray(3))
    found, grads = jax.jit(jax.value_and_grad(problem.loss))(params, batch, hyper)
    weights, b = np.asarray(params.W), np.asarray(params.b)
    u, sign = np.asarray(batch.features), np.asarray(batch.sign)
    assert set(sign) == {-1.0, 1.0}
    x = np.where(u < 0.6, u / 0.6, 0).T
    rows = (weights.T @ weights)[np.asarray(batch.target)]
    moved = x + 0.4 * sign[:, None] * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    sizes = 0.9 ** np.arange(5)

    def loss(weights):
        output = np.maximum(0, moved @ weights.T @ weights + b)
        return ((output - x) ** 2 @ sizes).mean()

    assert float(found) == pytest.approx(loss(weights), rel=1e-12)
    slopes = np.empty_like(weights)
    for at in np.ndindex(*weights.shape):
        little = np.zeros_like(weights)
        little[at] = 1e-6
        slopes[at] = (loss(weights + little) - loss(weights - little)) / 2e-6
    np.testing.assert_allclose(grads.W, slopes, rtol=1e-6, atol=1e-8)


# --- Absolute values.


def test_the_loss_is_that_of_absolute_values(x64):
    problem = AbsoluteToy(4, 3, batch_size=9, init_scale=0.5)
    hyper = ToyHyper(jnp.array([0.5, 0.7, 1.0, 0.2]), 0.8 ** jnp.arange(4.0))
    params = problem.init(jax.random.key(0), hyper)
    params = params._replace(b_out=jnp.array([0.1, -0.2, 0.3, 0.0]))
    batch = problem.batch(jax.random.key(1), jnp.asarray(2))
    found = jax.jit(problem.loss)(params, batch, hyper)
    u, p = np.asarray(batch), np.asarray(hyper.density)[:, None]
    x = np.where(u < p, 2 * u / p - 1, 0).T
    hidden = np.maximum(0, x @ np.asarray(params.W_in))
    output = np.maximum(0, hidden @ np.asarray(params.W_out) + np.asarray(params.b_out))
    wanted = ((output - np.abs(x)) ** 2 @ 0.8 ** np.arange(4)).mean()
    assert float(found) == pytest.approx(wanted, rel=1e-12)
    assert (x < 0).any() and (x > 0).any()


# --- Polygons: one-hot data, plateaus of training, and the polygon that has a loss.


def test_the_one_hot_loss_is_that_of_each_sample_and_its_mean_the_exact_one():
    rng, problem = np.random.default_rng(3), OneHotToy(4, 2, 20_000)
    weights, b = rng.normal(size=(2, 4)), 0.2 * rng.normal(size=4)
    params, hyper = TiedWeights(jnp.asarray(weights), jnp.asarray(b)), OneHotHyper(jnp.asarray(0.5))
    some = OneHotBatch(jnp.asarray([2, 0]), jnp.asarray([0.7, 0.2]))
    x = np.array([[0, 0, 0.7, 0], [0.2, 0, 0, 0]])
    by_hand = ((x - np.maximum(x @ weights.T @ weights + b, 0)) ** 2).sum(axis=1).mean()
    assert float(problem.loss(params, some, hyper)) == pytest.approx(by_hand, rel=1e-5)
    drawn = problem.batch(jax.random.key(1), jnp.asarray(3))
    assert np.bincount(drawn.feature, minlength=4) == pytest.approx(5000, rel=0.05)
    exact = float(one_hot_loss(params))
    assert float(problem.loss(params, drawn, hyper)) == pytest.approx(exact, rel=0.05)


def test_two_rests_and_a_fall_between():
    step = np.arange(0, 10_001, 100)
    falls = np.interp(step, [0, 1000, 4000, 5000, 10_000], [0.3, 0.1, 0.1, 0.05, 0.05])
    never = np.geomspace(0.3, 0.001, step.size)
    found = plateaus(step, np.stack([never, falls], axis=1))
    assert [one.seed for one in found] == [1, 1]
    assert [one.level for one in found] == pytest.approx([0.1, 0.05])
    assert [(one.begin, one.end) for one in found] == [(1000, 4000), (5000, 10_000)]


def test_the_losses_of_k_gons_are_the_exact_ones():
    gons = {k: optimal_kgon(k) for k in (5, 6)}
    h = xr.DataArray([0.0, 0, 0, 0, 0, gons[5].h, gons[6].h], {"vertices": range(7)}, ["vertices"])
    losses = kgon_losses(xr.Dataset({"h": h}, attrs={"trained": 6}))
    for k in (3, 4, 5, 6):
        norm, bias = (gons[k].norm, gons[k].bias) if k in gons else (1.0, 0.0)
        weights = kgon_weights(k, 6, jnp.asarray(norm), jnp.asarray(bias), n_positive=6 - k)
        exact = float(one_hot_loss(weights))
        assert float(losses.sel(vertices=k)) == pytest.approx(exact, rel=1e-4)
        assert nearest_kgon(exact * 1.004, losses) == k
        assert nearest_kgon(exact * 1.006, losses) == -1
    assert nearest_kgon(0.08, losses) == -1


# --- Places along lines: changes of a condition, kinks of a curve.


def test_a_change_along_a_line_is_located():
    low, high, at = np.array([0.1, 1.0]), np.array([1.0, 3.0]), np.array([0.237, 2.999])
    found = located(low, high, lambda points: points >= at[:, None])
    np.testing.assert_allclose(found, at, rtol=1e-4)


@pytest.mark.parametrize("at", [[12.0], [8.0, 25.0], [6.0, 17.0, 31.0]])
def test_kinks_of_a_broken_line_are_found(at):
    x, slopes = np.arange(41.0), [-1.0, -0.05, -0.7, 0.1][: len(at) + 1]
    ends = [x[0], *at, x[-1]]
    heights = 3.0 + np.concatenate([[0.0], np.cumsum(slopes * np.diff(ends))])
    np.testing.assert_array_equal(kinks(x, np.interp(x, ends, heights), tolerance=1e-6), at)


def test_the_split_at_kinks_is_the_best_of_all():
    rng = np.random.default_rng(1)
    x, y = np.cumsum(rng.uniform(0.2, 1, 14)), rng.normal(size=14)

    def error(i, j):
        line = np.polyfit(x[i : j + 1], y[i : j + 1], 1)
        return float(np.sum((np.polyval(line, x[i : j + 1]) - y[i : j + 1]) ** 2))

    splits = list(itertools.combinations(range(1, 13), 2))
    best = min(splits, key=lambda s: error(0, s[0]) + error(s[0], s[1]) + error(s[1], 13))
    np.testing.assert_array_equal(kinks(x, y, tolerance=1e-9, most=3), x[list(best)])
