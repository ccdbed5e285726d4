"""Sparse autoencoders as a training problem: losses against NumPy, and what they learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.training.dictionary import (
    DictionaryHyper,
    DictionaryLearning,
    cross_cosines,
    hedging,
    hidden_vectors,
    mean_max_cosine,
    one_to_one,
    rank_one_cosines,
    row_match,
)

RNG = np.random.default_rng(0)
TRUTH = RNG.normal(size=(4, 3))


def problem(kind: Sparsity, batch_size: int = 10) -> DictionaryLearning:
    return DictionaryLearning(Autoencoder(kind, width=4, d_in=3), n_true=4, batch_size=batch_size)


@pytest.mark.parametrize("kind", list(Sparsity))
def test_the_loss_is_error_and_cost(kind: Sparsity, rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        k = 2.0 if kind is Sparsity.topk else 0.3
        law = (jnp.asarray(TRUTH), jnp.asarray(0.4), jnp.asarray(0.5), jnp.asarray(k))
        hyper = DictionaryHyper(*law)
        learning = problem(kind)
        params = learning.init(jax.random.key(0), hyper)
        moved = {name: v + 0.1 * rng.normal(size=v.shape) for name, v in params.items()}
        batch = learning.batch(jax.random.key(1), jnp.asarray(5))
        found = float(jax.jit(learning.loss)(moved, batch, hyper))
        h = np.asarray(hidden_vectors(batch, hyper))
        D, W_enc, b_enc, b_dec = (np.asarray(moved[n]) for n in ("D", "W_enc", "b_enc", "b_dec"))
    rows = D / np.linalg.norm(D, axis=1, keepdims=True)
    codes = np.maximum(0, (h - b_dec) @ W_enc + b_enc)
    cost = 0.3 * codes.sum(axis=1)
    if kind is Sparsity.topk:
        codes, cost = np.where(codes >= np.sort(codes)[:, -2:-1], codes, 0), 0
    if kind is Sparsity.jumprelu:
        on = codes > np.maximum(0, np.asarray(moved["threshold"]))
        codes, cost = codes * on, 0.3 * on.sum(axis=1)
    sizes = (1, 2, 4) if kind is Sparsity.matryoshka else (4,)
    errors = [((codes[:, :s] @ rows[:s] + b_dec - h) ** 2).sum(axis=1) for s in sizes]
    assert found == pytest.approx((np.mean(errors, axis=0) + cost).mean(), rel=1e-12)


def test_thresholds_have_the_gradient_of_codes_near_them() -> None:
    """Each code within half a bandwidth, 0.1, counts: as if it were taken away over that width."""
    learning = problem(Sparsity.jumprelu, batch_size=100)
    with jax.enable_x64(True):
        law = (jnp.asarray(TRUTH), jnp.asarray(0.9), jnp.asarray(0.9), jnp.asarray(0.3))
        hyper = DictionaryHyper(*law)
        params = learning.init(jax.random.key(0), hyper)
        params |= {"threshold": jnp.array([0.3, 0.6, 0.9, 0.2])}
        batch = learning.batch(jax.random.key(1), jnp.asarray(0))
        slope = jax.jit(jax.grad(learning.loss))(params, batch, hyper)["threshold"]
        h, D, W_enc = (
            np.asarray(a) for a in (hidden_vectors(batch, hyper), params["D"], params["W_enc"])
        )
    threshold, rows = np.asarray(params["threshold"]), D / np.linalg.norm(D, axis=1)[:, None]
    codes = np.maximum(0, h @ W_enc)
    near = np.abs(codes - threshold) < 0.05
    assert near.any(axis=0).all() and near.mean() < 0.2
    error = (codes * (codes > threshold)) @ rows - h
    change = 2 * codes * (error @ rows.T) + 0.3
    np.testing.assert_allclose(slope, -(near * change / 0.1).sum(axis=0) / len(h), rtol=1e-9)


def test_the_true_dictionary_has_no_error() -> None:
    with jax.enable_x64(True):
        learning = DictionaryLearning(Autoencoder(Sparsity.relu, 3, 3), n_true=3, batch_size=20)
        law = (jnp.eye(3), jnp.asarray(0.5), jnp.asarray(0.2), jnp.asarray(0.0))
        hyper = DictionaryHyper(*law)
        params = learning.init(jax.random.key(0), hyper)
        batch = learning.batch(jax.random.key(1), jnp.asarray(0))
        exact = params | {"D": 2 * jnp.eye(3), "W_enc": jnp.eye(3)}
        assert float(learning.loss(exact, batch, hyper)) < 1e-30
        assert float(learning.loss(params, batch, hyper)) > 1e-3
    with pytest.raises(ValueError, match="n_true=0"):
        DictionaryLearning(Autoencoder(Sparsity.relu, 3, 3), n_true=0)


def test_cosines_do_not_depend_on_norms() -> None:
    rng = np.random.default_rng(1)
    truth, learned = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    learned[2] = 0
    norms = np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(learned, axis=1)[None]
    wanted = truth @ learned.T / np.where(norms > 0, norms, 1)
    with jax.enable_x64(True):
        found = cross_cosines(jnp.asarray(truth), jnp.asarray(learned))
        best = mean_max_cosine(jnp.asarray(truth), jnp.asarray(5 * learned))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    assert float(best) == pytest.approx(wanted.max(axis=1).mean(), rel=1e-12)


def test_hedging_is_the_part_of_another_feature() -> None:
    with jax.enable_x64(True):
        truth = jnp.eye(4)
        pure = jnp.eye(4)[jnp.array([2, 0])]
        mixed = jnp.array([[0.8, 0.6, 0, 0], [0, 0, 1.0, -0.5]])
        assert float(hedging(truth, pure)) == 0
        assert float(hedging(truth, mixed)) == pytest.approx((0.6 + 0) / 2, rel=1e-12)
        # What two true directions have in common is not counted as mixing.
        oblique = jnp.array([[1.0, 0.0], [0.6, 0.8]])
        assert float(hedging(oblique, oblique)) == pytest.approx(0, abs=1e-12)


def test_the_papers_score_compares_rows_of_matrices(rng: np.random.Generator) -> None:
    truth, V, U = rng.normal(size=(4, 3)), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    cosine, ratio = np.zeros(4), np.zeros(4)
    for i in range(4):
        rows = [np.outer(V[c], U[c])[i] for c in range(6)]
        found = [r @ truth[i] / np.linalg.norm(r) / np.linalg.norm(truth[i]) for r in rows]
        cosine[i] = max(found)
        ratio[i] = np.linalg.norm(rows[int(np.argmax(found))]) / np.linalg.norm(truth[i])
    with jax.enable_x64(True):
        got = jax.jit(row_match)(*map(jnp.asarray, (truth, V, U)))
    np.testing.assert_allclose(got.cosine, cosine, rtol=1e-12)
    np.testing.assert_allclose(got.norm_ratio, ratio, rtol=1e-12)


def test_a_whole_subcomponent_has_to_read_its_feature_and_nothing_else(
    rng: np.random.Generator,
) -> None:
    truth, V, U = rng.normal(size=(4, 3)), rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    wanted = np.zeros((4, 6))
    for i in range(4):
        true = np.outer(np.eye(4)[i], truth[i])
        for c in range(6):
            learned = np.outer(V[c], U[c])
            norms = np.linalg.norm(true) * np.linalg.norm(learned)
            wanted[i, c] = (true * learned).sum() / norms
    with jax.enable_x64(True):
        arrays = tuple(map(jnp.asarray, (truth, V, U)))
        np.testing.assert_allclose(rank_one_cosines(*arrays), wanted, rtol=1e-12)
        # Reading two features at once costs the whole score and not the row's.
        two = jnp.array([[1.0, 1.0, 0, 0]]), arrays[0][:1]
        assert float(row_match(arrays[0], *two).cosine[0]) == pytest.approx(1, rel=1e-12)
        assert float(rank_one_cosines(arrays[0], *two)[0, 0]) == pytest.approx(0.5**0.5, rel=1e-12)


def test_each_input_needs_a_subcomponent_of_its_own() -> None:
    with jax.enable_x64(True):
        assert float(one_to_one(jnp.eye(3)[:, jnp.array([2, 0, 1])])) == 1
        shared = jnp.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
        assert float(one_to_one(shared)) == 0
        mixed = jnp.array([[1.0, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
        assert float(one_to_one(mixed)) == 0.25
