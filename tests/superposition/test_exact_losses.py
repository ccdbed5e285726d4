"""Losses of many networks: what fills sizes up changes nothing, and near sizes share a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.descent import _advance
from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.expected_loss import (
    Padding,
    batch_size,
    batches,
    exact_losses,
    expected_loss,
    padded_size,
    partial_loss,
    unpacked,
)
from circuitax.superposition.optimum import find_optimum


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
