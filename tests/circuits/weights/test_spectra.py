"""Eigenvalue scores of k × k problems against the V × V matrices they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights import heads, spectra
from circuitax.kernel.chain import chain_of, materialise
from circuitax.kernel.spectrum import trace


def _dense_score(matrix):
    values = np.linalg.eigvals(matrix)
    return values.sum().real / np.abs(values).sum()


def test_copying_scores_are_those_of_the_full_circuits(make_run, x64):
    run = make_run(2)
    ov = heads.token_ov(run.model)
    found = jax.jit(spectra.copying_score)(ov)
    dense = np.asarray(materialise(ov))
    expected = [[_dense_score(dense[layer, head]) for head in range(2)] for layer in range(2)]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(trace(ov), dense.trace(axis1=-2, axis2=-1), atol=1e-10)


def test_copying_heads_score_one_and_anticopying_minus_one(rng, x64):
    B = jnp.asarray(np.linalg.qr(rng.normal(size=(9, 3)))[0])
    copy = chain_of(B, B.T)
    np.testing.assert_allclose(spectra.copying_score(copy), 1, atol=1e-12)
    np.testing.assert_allclose(spectra.copying_score(chain_of(-B, B.T)), -1, atol=1e-12)
    # a cyclic shift of three directions has the cube roots of 1: they sum to 0
    turn = jnp.roll(jnp.eye(3), 1, axis=0)
    np.testing.assert_allclose(spectra.copying_score(chain_of(B, turn, B.T)), 0, atol=1e-12)


def test_same_matching_of_an_ideal_induction_pair(make_run, x64):
    """Keys that read what the previous-token head wrote match equal tokens: score 1."""
    run = make_run(2, d_model=6, d_vocab=7)
    attention = run.model.blocks.attention
    queries, keys = spectra.composed_keys(run.model, (0, 1), 1)
    circuit, score = spectra.same_matching(queries, keys, centred=False)
    E, W_V, W_O = run.model.W_E, attention.W_V[0, 1], attention.W_O[0, 1]
    for head in range(2):
        marker = np.asarray(E) @ W_V @ W_O @ attention.W_K[1, head]
        dense = np.asarray(E) @ attention.W_Q[1, head] @ np.asarray(marker).T
        np.testing.assert_allclose(materialise(circuit)[head], dense, atol=1e-12)
        np.testing.assert_allclose(score[head], _dense_score(dense), atol=1e-9)
    ideal = chain_of(E, W_V, W_O)
    _, one = spectra.same_matching(ideal, ideal, centred=False)
    np.testing.assert_allclose(one, 1, atol=1e-10)


def test_random_scores_are_small_at_rank_64():
    """Published null: 0 ± 0.03 at rank 64; the mean is 0 by the symmetry M → -M."""
    null = spectra.random_score(jax.random.key(0), 64, 60)
    assert abs(null.mean) < 5 * 0.03 / np.sqrt(60)
    assert 0.01 < null.std < 0.03
    with pytest.raises(ValueError, match="n_samples=1 must be at least 2"):
        spectra.random_score(jax.random.key(0), 4, 1)
    with pytest.raises(ValueError, match="rank=0 must be at least 1"):
        spectra.random_score(jax.random.key(0), 0)


@pytest.mark.parametrize(
    ("writer", "reader_layer", "message"),
    [
        ((0, 2), 1, r"writer\[1\]=2 must be from 0 to 1"),
        ((-1, 0), 1, r"writer\[0\]=-1 must be from 0 to 1"),
        ((0, 0), 2, "reader_layer=2 must be from 0 to 1"),
        ((1, 0), 1, r"reader_layer=1 must be a layer after that of writer=\(1, 0\)"),
    ],
)
def test_heads_that_do_not_compose_are_named(writer, reader_layer, message, make_run):
    run = make_run(2, dtype=jnp.float32)
    with pytest.raises(ValueError, match=message):
        spectra.composed_keys(run.model, writer, reader_layer)


def test_score_of_nothing_is_zero_and_gradients_are_finite(rng, x64):
    assert spectra.eigenvalue_score(jnp.zeros(3, complex)) == 0
    W = jnp.asarray(rng.normal(size=(5, 3)))

    def score(W):
        return spectra.copying_score(chain_of(W, jnp.asarray(rng_fixed)))

    rng_fixed = np.linspace(-1, 1, 15).reshape(3, 5) + np.eye(3, 5)
    slope = jax.grad(score)(W)
    direction = jnp.asarray(rng.normal(size=(5, 3)))
    step = 1e-6
    difference = (score(W + step * direction) - score(W - step * direction)) / (2 * step)
    np.testing.assert_allclose(jnp.vdot(slope, direction), difference, rtol=1e-5)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-12, jnp.float32), (1.0, jnp.float32), (1e6, jnp.float32), (1.0, jnp.float16)],
)
def test_copying_does_not_depend_on_the_scale_of_the_weights(scale, dtype, rng):
    """At 1e-12 the product of four float32 factors is 0; float16 has no eigenvalues in LAPACK."""
    shapes = [(9, 6), (6, 3), (3, 6), (6, 9)]
    factors = [jnp.asarray(scale * rng.normal(size=shape), dtype) for shape in shapes]
    dense = np.linalg.multi_dot([np.asarray(f, float) / scale for f in factors])
    found = spectra.copying_score(chain_of(*factors))
    np.testing.assert_allclose(found, _dense_score(dense), atol=1e-4)
