"""Learned dictionaries and subcomponents against the true ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.dictionaries import (
    cross_cosines,
    hedging,
    mean_max_cosine,
    one_to_one,
    rank_one_cosines,
    row_match,
)


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
