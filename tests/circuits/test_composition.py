"""Composition scores against dense norms, nulls against sampling, maxima against rotations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import composition
from circuitax.kernel.chain import materialise
from circuitax.kernel.spectrum import singular_values
from circuitax.kernel.weights import HeadStack


def _heads(rng, L=2, H=2, d=8, k=3, v=2, dtype=float):
    shapes = [(L, H, d, k), (L, H, d, k), (L, H, d, v), (L, H, v, d)]
    return HeadStack(*(jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes))


def _dense(heads, layer, head):
    Q, K, V, O = (np.asarray(W[layer, head]) for W in heads[:4])
    return Q @ K.T, V @ O


def _reads(heads, layer, head):
    qk, ov = _dense(heads, layer, head)
    return {"Q": qk, "K": qk.T, "V": ov}


@pytest.mark.parametrize("v", [2, 4])
@pytest.mark.parametrize("block_entries", [1, 2**20])
def test_scores_are_dense_norms(v, block_entries, rng, x64):
    heads = _heads(rng, L=3, v=v)
    found = jax.jit(composition.composition, static_argnums=1)(heads, block_entries)
    norm = np.linalg.norm
    for i, kind in enumerate(composition.KINDS):
        for writer in np.ndindex(3, 2):
            for reader in np.ndindex(3, 2):
                score = found.score[(i, *writer, *reader)]
                if writer[0] >= reader[0]:
                    assert np.isnan(score)
                    continue
                ov, read = _dense(heads, *writer)[1], _reads(heads, *reader)[kind]
                expected = norm(ov @ read) / (norm(ov) * norm(read))
                np.testing.assert_allclose(score, expected, rtol=1e-10)
                product = materialise(composition.composed(heads, kind, writer, reader))
                np.testing.assert_allclose(product, ov @ read, atol=1e-10)
    only = composition.composition_scores(heads)
    np.testing.assert_allclose(only, found.score, rtol=1e-10)


def test_E15_cycling_inside_the_norm_gives_another_number(rng, x64):
    """``‖W_QK W_OV‖`` and the cyclic shift measured by the first diagram differ."""
    heads = _heads(rng)
    Q, K, V, O = (np.asarray(W[1, 0]) for W in heads[:4])
    V, O = np.asarray(heads.W_V[0, 0]), np.asarray(heads.W_O[0, 0])
    right = np.linalg.norm(V @ O @ K @ Q.T)
    cycled = np.linalg.norm(O @ K @ Q.T @ V)
    score = composition.composition_scores(heads)[1, 0, 0, 1, 0]
    scale = np.linalg.norm(V @ O) * np.linalg.norm(Q @ K.T)
    np.testing.assert_allclose(score, right / scale, rtol=1e-10)
    assert abs(cycled / scale - score) > 1e-2
    np.testing.assert_allclose(np.trace(V @ O @ K @ Q.T), np.trace(O @ K @ Q.T @ V))


def test_E16_closed_form_null_agrees_with_sampled_rotations(rng):
    """Mean 1/d and the stated variance of the squared score, within five standard errors."""
    heads = _heads(rng, d=10, dtype=jnp.float32)
    n = 600
    found = composition.composition(heads)
    null = jax.jit(composition.rotation_null, static_argnums=2)(jax.random.key(0), heads, n)
    pairs = ~np.isnan(np.asarray(found.score))
    mean, std = np.asarray(null.mean)[pairs], np.asarray(null.std)[pairs]
    closed = np.asarray(found.null_std)[pairs]
    assert np.all(np.abs(mean - 1 / 10) < 5 * closed / np.sqrt(n))
    np.testing.assert_allclose(std, closed, rtol=0.25)
    np.testing.assert_allclose(std.mean(), closed.mean(), rtol=0.05)
    z = (np.asarray(found.score)[pairs] ** 2 - 1 / 10) / closed
    np.testing.assert_allclose(np.asarray(found.z)[pairs], z, rtol=1e-3)


def test_random_heads_score_one_over_root_d_model(rng):
    """Section 1.6: within 2 % at d_model 768."""
    heads = _heads(rng, H=4, d=768, k=16, v=16, dtype=jnp.float32)
    scores = jax.jit(composition.composition_scores)(heads)
    means = np.nanmean(np.asarray(scores), axis=(1, 2, 3, 4))
    np.testing.assert_allclose(means, 1 / np.sqrt(768), rtol=0.02)


def test_the_maximum_is_reached_by_aligning_singular_vectors(rng, x64):
    heads = _heads(rng, H=1, v=3)
    found = composition.composition(heads)
    assert np.nanmax(np.asarray(found.score / found.maximum)) < 1
    qk, ov = _dense(heads, 1, 0)[0], _dense(heads, 0, 0)[1]
    u_read = np.linalg.svd(qk)[0]
    v_write = np.linalg.svd(ov)[2].T
    R = v_write @ u_read.T  # turns what is written strongest onto what is read strongest
    aligned = heads._replace(W_O=heads.W_O.at[0].set(heads.W_O[0] @ R))
    again = composition.composition(aligned)
    np.testing.assert_allclose(again.score[0, 0, 0, 1, 0], found.maximum[0, 0, 0, 1, 0], rtol=1e-8)
    s_ov = singular_values(composition.composed(heads, "V", (0, 0), (1, 0)))
    assert s_ov.shape == (3,)


def test_scores_are_blind_to_the_basis_inside_heads_and_differentiable(rng, x64):
    heads = _heads(rng)
    R = jnp.asarray(rng.normal(size=(3, 3)))
    turned = heads._replace(W_Q=heads.W_Q @ R, W_K=heads.W_K @ jnp.linalg.inv(R).T)
    score = jax.jit(composition.composition_scores)
    np.testing.assert_allclose(score(turned), score(heads), rtol=1e-8)

    def k_score(W_K):
        return score(heads._replace(W_K=W_K))[1, 0, 1, 1, 0]

    slope = jax.jit(jax.grad(k_score))(heads.W_K)
    assert np.all(np.isfinite(slope)) and not slope[0].any()
    # scale invariance: the gradient is orthogonal to the weights
    np.testing.assert_allclose(jnp.vdot(slope, heads.W_K), 0, atol=1e-12)
    assert jnp.abs(slope[1, 0]).max() > 1e-4
    members = jax.tree.map(lambda W: jnp.stack([W, 2 * W]), heads)
    both = jax.vmap(score)(members)
    np.testing.assert_allclose(both[1], both[0], rtol=1e-10)


def test_bad_arguments_are_named(rng):
    heads = _heads(rng, dtype=jnp.float32)
    with pytest.raises(ValueError, match="kind='k' must be one of"):
        composition.composed(heads, "k", (0, 0), (1, 0))
    with pytest.raises(ValueError, match=r"reader\[1\]=9 must be from 0 to"):
        composition.composed(heads, "K", (0, 0), (1, 9))
    with pytest.raises(ValueError, match=r"writer\[0\]=-1 must be from 0 to"):
        composition.composed(heads, "K", (-1, 0), (1, 0))
    with pytest.raises(ValueError, match=r"reader=\(1, 0\) must be in a later layer than"):
        composition.composed(heads, "K", (1, 1), (1, 0))
    with pytest.raises(ValueError, match="n_samples=1 must be at least 2"):
        composition.rotation_null(jax.random.key(0), heads, 1)


def test_a_head_of_zeros_has_no_z_and_spoils_no_other(rng, x64):
    heads = _heads(rng)
    full = composition.composition(heads)
    dead = heads._replace(W_O=heads.W_O.at[0, 0].set(0))
    found = composition.composition(dead)
    assert not np.asarray(found.score[:, 0, 0, 1]).any()
    assert np.isnan(found.z[:, 0, 0, 1:]).all()
    np.testing.assert_allclose(found.z[:, 0, 1, 1], full.z[:, 0, 1, 1], atol=1e-12)
    slope = jax.grad(lambda W_O: jnp.nansum(composition.composition(heads._replace(W_O=W_O)).z))(
        dead.W_O
    )
    assert np.isfinite(slope).all()
