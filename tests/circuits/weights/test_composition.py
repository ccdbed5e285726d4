"""Composition scores against dense norms, and their null."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights import composition, folding
from circuitax.circuits.weights.mlps import mlp_composition
from circuitax.kernel.chain import materialise
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.spectrum import singular_values
from circuitax.kernel.weights import HeadStack, NormWeights
from circuitax.models.transformer import init


def _arrays(rng, L=2, H=2, d=8, k=3, v=2):
    shapes = [(L, H, d, k), (L, H, d, k), (L, H, d, v), (L, H, v, d)]
    return HeadStack(*(rng.normal(size=shape) for shape in shapes))


def _model_of(heads, dtype=float, d_model=None):
    """A model whose embeddings, which no score reads, are 0."""
    d = heads.W_O.shape[-1] if d_model is None else d_model
    heads = jax.tree.map(lambda W: jnp.asarray(W, dtype), heads)
    return Model.of(W_E=jnp.zeros((1, d), dtype), W_U=jnp.zeros((d, 1), dtype), attention=heads)


def _model(rng, dtype=float, **sizes):
    return _model_of(_arrays(rng, **sizes), dtype)


def _with(model, **maps):
    heads = model.blocks.attention._replace(**maps)
    return model.replace(blocks=model.blocks._replace(attention=heads))


def _dense(model, layer, head):
    Q, K, V, O = (np.asarray(W[layer, head]) for W in model.blocks.attention[:4])
    return Q @ K.T, V @ O


def _reads(model, layer, head):
    qk, ov = _dense(model, layer, head)
    return {"Q": qk, "K": qk.T, "V": ov}


@pytest.mark.parametrize("v", [2, 4])
# Rings of eight tiles, of three (the last one short), and of one.
@pytest.mark.parametrize("block_entries", [1, 216, 2**20])
def test_scores_are_dense_norms(v, block_entries, rng, x64):
    model = _model(rng, L=3, v=v)
    compute = jax.jit(composition.composition, static_argnames="block_entries")
    found = compute(model, block_entries=block_entries)
    norm = np.linalg.norm
    for i, kind in enumerate(composition.KINDS):
        for writer in np.ndindex(3, 2):
            for reader in np.ndindex(3, 2):
                score = found.score[(i, *writer, *reader)]
                if writer[0] >= reader[0]:
                    assert np.isnan(score)
                    continue
                ov, read = _dense(model, *writer)[1], _reads(model, *reader)[kind]
                expected = norm(ov @ read) / (norm(ov) * norm(read))
                np.testing.assert_allclose(score, expected, rtol=1e-10)
                product = materialise(composition.composed(model, kind, writer, reader))
                np.testing.assert_allclose(product, ov @ read, atol=1e-10)
    only = composition.composition_scores(model)
    np.testing.assert_allclose(only, found.score, rtol=1e-10)


def test_kinds_by_name(rng):
    found = composition.composition(_model(rng))
    for k, kind in enumerate("QKV"):
        np.testing.assert_array_equal(getattr(found, kind).score, found.score[k])


def test_E15_cycling_inside_the_norm_gives_another_number(rng, x64):
    """``‖W_QK W_OV‖`` and the cyclic shift measured by the first diagram differ."""
    model = _model(rng)
    heads = model.blocks.attention
    Q, K = np.asarray(heads.W_Q[1, 0]), np.asarray(heads.W_K[1, 0])
    V, O = np.asarray(heads.W_V[0, 0]), np.asarray(heads.W_O[0, 0])
    right = np.linalg.norm(V @ O @ K @ Q.T)
    cycled = np.linalg.norm(O @ K @ Q.T @ V)
    score = composition.composition_scores(model)[1, 0, 0, 1, 0]
    scale = np.linalg.norm(V @ O) * np.linalg.norm(Q @ K.T)
    np.testing.assert_allclose(score, right / scale, rtol=1e-10)
    assert abs(cycled / scale - score) > 1e-2
    np.testing.assert_allclose(np.trace(V @ O @ K @ Q.T), np.trace(O @ K @ Q.T @ V))


def test_E16_closed_form_null_agrees_with_sampled_rotations(rng):
    """Mean 1/d and the stated variance of the squared score, within five standard errors."""
    model = _model(rng, d=10, dtype=jnp.float32)
    n = 600
    found = composition.composition(model)
    null = jax.jit(composition.rotation_null, static_argnames="n_samples")(
        model, jax.random.key(0), n_samples=n
    )
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
    model = _model(rng, H=4, d=768, k=16, v=16, dtype=jnp.float32)
    scores = jax.jit(composition.composition_scores)(model)
    means = np.nanmean(np.asarray(scores), axis=(1, 2, 3, 4))
    np.testing.assert_allclose(means, 1 / np.sqrt(768), rtol=0.02)


def test_the_maximum_is_reached_by_aligning_singular_vectors(rng, x64):
    model = _model(rng, H=1, v=3)
    found = composition.composition(model)
    assert np.nanmax(np.asarray(found.score / found.maximum)) < 1
    qk, ov = _dense(model, 1, 0)[0], _dense(model, 0, 0)[1]
    u_read = np.linalg.svd(qk)[0]
    v_write = np.linalg.svd(ov)[2].T
    R = v_write @ u_read.T  # turns what is written strongest onto what is read strongest
    W_O = model.blocks.attention.W_O
    aligned = _with(model, W_O=W_O.at[0].set(W_O[0] @ R))
    again = composition.composition(aligned)
    np.testing.assert_allclose(again.score[0, 0, 0, 1, 0], found.maximum[0, 0, 0, 1, 0], rtol=1e-8)
    s_ov = singular_values(composition.composed(model, "V", (0, 0), (1, 0)))
    assert s_ov.shape == (3,)


def test_scores_are_blind_to_the_basis_inside_heads_and_differentiable(rng, x64):
    model = _model(rng)
    heads, R = model.blocks.attention, jnp.asarray(rng.normal(size=(3, 3)))
    turned = _with(model, W_Q=heads.W_Q @ R, W_K=heads.W_K @ jnp.linalg.inv(R).T)
    score = jax.jit(composition.composition_scores)
    np.testing.assert_allclose(score(turned), score(model), rtol=1e-8)

    def k_score(W_K):
        return score(_with(model, W_K=W_K))[1, 0, 1, 1, 0]

    slope = jax.jit(jax.grad(k_score))(heads.W_K)
    assert np.all(np.isfinite(slope)) and not slope[0].any()
    # scale invariance: the gradient is orthogonal to the weights
    np.testing.assert_allclose(jnp.vdot(slope, heads.W_K), 0, atol=1e-12)
    assert jnp.abs(slope[1, 0]).max() > 1e-4
    members = jax.tree.map(lambda W: jnp.stack([W, 2 * W]), model)
    both = jax.vmap(score)(members)
    np.testing.assert_allclose(both[1], both[0], rtol=1e-10)


def test_grouped_rotary_heads_compose_at_an_offset_as_dense_maps_do(rng, x64):
    """4 query heads, 2 key/value heads, and gains: against maps written out for every head."""
    L, H, d, k, offset = 2, 4, 12, 6, 3
    spec = TransformerSpec(
        d_vocab=5,
        n_layers=L,
        n_heads=H,
        n_kv_heads=2,
        d_model=d,
        d_head=k,
        positions=Positions.rotary,
        norm=Norm.rmsnorm,
    )
    plain = init(jax.random.key(0), spec, float)
    gain = rng.uniform(0.5, 2.0, size=(L, d))
    blocks = plain.blocks._replace(attention_norm=NormWeights(jnp.asarray(gain), None))
    model = folding.fold_norms(plain.replace(blocks=blocks))
    found = composition.composition(model, offset=offset)
    heads = plain.blocks.attention
    W_Q, W_K, W_V = (
        np.einsum("ld,lhdk->lhdk", gain, np.asarray(W)) for W in (heads.W_Q, heads.W_K, heads.W_V)
    )
    angle = offset * 10_000.0 ** (-np.arange(0, k, 2) / k)
    turned = np.empty_like(W_Q)  # q_t · k_s with both turned = (q turned by t - s) · k
    turned[..., ::2] = W_Q[..., ::2] * np.cos(angle) - W_Q[..., 1::2] * np.sin(angle)
    turned[..., 1::2] = W_Q[..., ::2] * np.sin(angle) + W_Q[..., 1::2] * np.cos(angle)
    for one, two in np.ndindex(H, H):
        ov = W_V[0, one // 2] @ np.asarray(heads.W_O[0, one])
        qk = turned[1, two] @ W_K[1, two // 2].T
        reads = (qk, qk.T, W_V[1, two // 2] @ np.asarray(heads.W_O[1, two]))
        for kind, read in enumerate(reads):
            norms = np.linalg.norm(ov) * np.linalg.norm(read)
            score = np.linalg.norm(ov @ read) / norms
            np.testing.assert_allclose(found.score[kind, 0, one, 1, two], score, rtol=1e-9)
    other = composition.composition_scores(model)
    np.testing.assert_array_equal(other, composition.composition_scores(model, offset=0))
    moved = np.abs(other - found.score)[:, 0, :, 1].max(axis=(1, 2))
    assert moved[0] > 1e-3 and moved[1] > 1e-3 and moved[2] == 0


@pytest.mark.parametrize("norm", [Norm.layernorm, Norm.rmsnorm])
def test_norms_are_folded_in_every_analysis_of_weights(norm, rng, x64):
    spec = TransformerSpec(
        d_vocab=9,
        n_ctx=6,
        n_heads=2,
        d_model=8,
        d_mlp=5,
        norm=norm,
        positions=Positions.rotary,
    )
    plain = init(jax.random.key(0), spec, float)
    gain = NormWeights(jnp.asarray(rng.uniform(0.5, 2.0, size=(2, 8))), None)
    blocks = plain.blocks._replace(attention_norm=gain, mlp_norm=gain)
    model = plain.replace(blocks=blocks, final_norm=NormWeights(gain.gain[0], None))
    bare = folding.fold_norms(model)
    for f in (
        composition.composition,
        lambda model: composition.composition(model, offset=2),
        lambda model: composition.composed(model, "K", (0, 1), (1, 0)),
        mlp_composition,
    ):
        for got, want in zip(*(jax.tree.leaves(f(m)) for m in (model, bare)), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-11)
