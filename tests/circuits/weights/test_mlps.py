"""MLPs read from weights: composition against dense maps, bilinear ones as tensors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import special_ortho_group

import circuitax as cx
from circuitax.circuits.weights.mlps import (
    as_eigenvectors,
    bilinear_mlps,
    interaction_eigenvectors,
    interaction_matrices,
    kept_eigenvectors,
    mlp_composition,
    output_basis,
    pair_terms,
    token_interactions,
)
from circuitax.kernel.chain import materialise, top_k
from circuitax.kernel.interventions import freeze
from circuitax.kernel.mlp import Activation, apply_mlp
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import MLPWeights
from circuitax.models.transformer import init

L, H, D, D_MLP = 3, 2, 6, 9


def model_of(seed=0, gated=True, **options):
    spec = cx.TransformerSpec(
        d_vocab=5, n_ctx=4, n_layers=L, n_heads=H, d_model=D, d_head=3, d_mlp=D_MLP, gated=gated
    )
    return cx.init(jax.random.key(seed), spec.replace(norm="none", **options), jnp.float64)


def units(model, layer):
    """Each hidden unit as a map, and what opens it."""
    mlp = model.blocks.mlp
    W_in, W_out, W_gate = (np.asarray(w[layer]) for w in (mlp.W_in, mlp.W_out, mlp.W_gate))
    maps = [np.outer(W_in[:, k], W_out[k]) for k in range(D_MLP)]
    opened = [W_gate[:, k] * np.linalg.norm(maps[k]) for k in range(D_MLP)]
    return maps, [v[:, None] for v in opened]


def score(writes, reads):
    """``√(Σ |A B|² / (Σ |A|² Σ |B|²))`` over all maps of both sides."""
    over = sum(np.linalg.norm(a @ b) ** 2 for a in writes for b in reads)
    sizes = [sum(np.linalg.norm(m) ** 2 for m in side) for side in (writes, reads)]
    return np.sqrt(over / np.prod(sizes))


def head(model, layer, h):
    Q, K, V, O = (np.asarray(getattr(model.blocks.attention, f"W_{x}")[layer, h]) for x in "QKVO")
    return {"OV": V @ O, "Q": Q @ K.T, "K": K @ Q.T, "V": V @ O}


@pytest.mark.parametrize("parallel", [False, True])
def test_scores_are_norms_over_all_units(parallel, x64):
    model = model_of(parallel=parallel)
    found = jax.jit(mlp_composition)(model)
    for m in range(L):
        maps, gates = units(model, m)
        for l in range(L):
            before, _ = units(model, l)
            for kind, read in enumerate((maps, gates)):
                want = score(before, read) if l < m else np.nan
                np.testing.assert_allclose(found.mlp_to_mlp.score[kind, l, m], want, rtol=1e-12)
                for h in range(H):
                    may = l < m or (l == m and not parallel)
                    want = score([head(model, l, h)["OV"]], read) if may else np.nan
                    got = found.head_to_mlp.score[kind, l, h, m]
                    np.testing.assert_allclose(got, want, rtol=1e-12)
            for kind, name in enumerate("QKV"):
                for h in range(H):
                    want = score(before, [head(model, m, h)[name]]) if l < m else np.nan
                    got = found.mlp_to_head.score[kind, l, m, h]
                    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_null_is_that_of_random_rotations(rng, x64):
    """Rotating what writers write leaves shapes and norms; scores have the stated moments."""
    model = model_of(1)
    blocks = model.blocks

    @jax.jit
    @jax.vmap
    def rotated(R):
        heads = blocks.attention._replace(W_O=blocks.attention.W_O @ R)
        mlp = blocks.mlp._replace(W_out=blocks.mlp.W_out @ R)
        turned = model.replace(blocks=blocks._replace(attention=heads, mlp=mlp))
        return jax.tree.leaves(mlp_composition(turned))

    n = 4000
    draws = rotated(jnp.asarray(special_ortho_group.rvs(D, size=n, random_state=rng)))
    for i, kind in enumerate(mlp_composition(model)):
        squares, null_std = np.asarray(draws[3 * i]) ** 2, np.asarray(kind.null_std)
        here = np.isfinite(null_std)
        assert here.any()
        off = (squares.mean(axis=0) - 1 / D)[here] / null_std[here]
        assert np.abs(off).max() < 5 / np.sqrt(n)
        np.testing.assert_allclose(squares.std(axis=0)[here], null_std[here], rtol=0.08)
        z = (np.asarray(kind.score) ** 2 - 1 / D) / null_std
        np.testing.assert_allclose(kind.z[here], z[here], rtol=1e-9)


def test_scores_are_blind_to_how_a_unit_divides_its_size_and_differentiable(rng, x64):
    model, c = model_of(2), jnp.asarray(np.exp(rng.normal(size=(L, D_MLP))))
    mlp = model.blocks.mlp

    def with_mlp(changed):
        return model.replace(blocks=model.blocks._replace(mlp=changed))

    moved = mlp._replace(W_in=mlp.W_in * c[:, None], W_out=mlp.W_out / c[..., None])
    for a, b in zip(mlp_composition(model), mlp_composition(with_mlp(moved)), strict=True):
        np.testing.assert_allclose(a.z, b.z, rtol=1e-9)

    def one(step):
        found = mlp_composition(with_mlp(mlp._replace(W_gate=mlp.W_gate.at[1, 2, 3].add(step))))
        return found.head_to_mlp.score[1, 0, 1, 1]

    slope = (one(1e-5) - one(-1e-5)) / 2e-5
    assert abs(slope) > 1e-4
    np.testing.assert_allclose(jax.grad(one)(0.0), slope, rtol=1e-6)


BILINEAR_D, M = 5, 7
BILINEAR = TransformerSpec(11, 6, 1, 2, 4, d_mlp=3, gated=True, activation=Activation.linear)


@pytest.fixture
def mlp(rng, x64) -> MLPWeights:
    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape))

    return MLPWeights(
        normal(BILINEAR_D, M),
        normal(M, BILINEAR_D),
        b_out=normal(BILINEAR_D),
        W_gate=normal(BILINEAR_D, M),
    )


def written(mlp: MLPWeights, x: np.ndarray) -> np.ndarray:
    """What the MLP writes to each row, unit by unit, without its constant."""
    total = np.zeros_like(x)
    for k in range(mlp.W_in.shape[1]):
        read = (x @ np.asarray(mlp.W_gate)[:, k]) * (x @ np.asarray(mlp.W_in)[:, k])
        total += read[:, None] * np.asarray(mlp.W_out)[k]
    return total


def test_interaction_matrices_are_symmetric_and_give_what_is_written(mlp, rng) -> None:
    u, x = rng.normal(size=(2, 3, BILINEAR_D)), rng.normal(size=(4, BILINEAR_D))
    found = jax.jit(interaction_matrices)(mlp, jnp.asarray(u))
    np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
    want = np.einsum("xd,...d->...x", written(mlp, x), u)
    np.testing.assert_allclose(np.einsum("xi,...ij,xj->...x", x, found, x), want, atol=1e-12)
    applied = apply_mlp(mlp, jnp.asarray(x), "linear") - mlp.b_out[None]
    np.testing.assert_allclose(applied, written(mlp, x), atol=1e-12)
    by_layer = jax.vmap(interaction_matrices, (0, None))
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), mlp)
    np.testing.assert_allclose(by_layer(twice, jnp.asarray(u))[1], 8 * found, atol=1e-10)


def test_eigenvectors_add_up_to_the_matrix_and_fall(mlp, rng) -> None:
    matrices = interaction_matrices(mlp, jnp.asarray(rng.normal(size=(3, BILINEAR_D))))
    found = interaction_eigenvectors(matrices)
    values, vectors = map(np.asarray, found)
    assert (np.diff(np.abs(values), axis=-1) <= 0).all() and (values < 0).any()
    again = np.einsum("oik,ok,ojk->oij", vectors, values, vectors)
    np.testing.assert_allclose(again, matrices, atol=1e-12)
    for matrix, own in zip(np.asarray(matrices), values, strict=True):
        np.testing.assert_allclose(np.sort(own), np.linalg.eigvalsh(matrix), atol=1e-12)


def test_the_basis_of_outputs_is_that_of_the_unfolded_tensor(mlp) -> None:
    basis = np.asarray(output_basis(mlp))
    np.testing.assert_allclose(basis @ basis.T, np.eye(BILINEAR_D), atol=1e-12)
    gate, value, out = (np.asarray(W) for W in (mlp.W_gate, mlp.W_in, mlp.W_out))
    tensor = np.zeros((BILINEAR_D, BILINEAR_D, BILINEAR_D))
    for k in range(M):
        outer = np.outer(gate[:, k], value[:, k])
        tensor += out[k][:, None, None] * (outer + outer.T) / 2
    left, sizes, _ = np.linalg.svd(tensor.reshape(BILINEAR_D, -1), full_matrices=False)
    np.testing.assert_allclose(np.abs(basis @ left), np.eye(BILINEAR_D), atol=1e-9)
    norms = np.linalg.norm(interaction_matrices(mlp, jnp.asarray(basis)), axis=(1, 2))
    np.testing.assert_allclose(norms, sizes, rtol=1e-10)


def test_eigenvectors_as_units_are_the_same_mlp_and_few_are_the_largest(mlp, rng) -> None:
    x = rng.normal(size=(4, BILINEAR_D))
    whole = jax.jit(as_eigenvectors)(mlp)
    np.testing.assert_allclose(
        apply_mlp(whole, jnp.asarray(x), "linear"),
        written(mlp, x) + np.asarray(mlp.b_out),
        atol=1e-11,
    )
    basis = np.asarray(output_basis(mlp))
    want = np.zeros_like(x)
    for u in basis:
        values, vectors = np.linalg.eigh(interaction_matrices(mlp, jnp.asarray(u)))
        for i in np.argsort(-np.abs(values))[:2]:
            want += (values[i] * (x @ vectors[:, i]) ** 2)[:, None] * u
    two = jnp.broadcast_to(jnp.arange(2), (BILINEAR_D, 2))
    kept = kept_eigenvectors(whole, two)
    assert kept.W_out.shape == (2 * BILINEAR_D, BILINEAR_D)
    found = apply_mlp(kept, jnp.asarray(x), "linear") - mlp.b_out[None]
    np.testing.assert_allclose(found, want, atol=1e-11)
    assert np.abs(want - written(mlp, x)).max() > 0.1


def test_pairs_of_sources_add_up_to_what_is_written(mlp, rng) -> None:
    sources, u = rng.normal(size=(3, BILINEAR_D)), rng.normal(size=(2, BILINEAR_D))
    terms = np.asarray(jax.jit(pair_terms)(mlp, jnp.asarray(sources), jnp.asarray(u)))
    want = written(mlp, sources.sum(axis=0, keepdims=True))[0] @ u.T
    np.testing.assert_allclose(terms.sum(axis=(1, 2)), want, atol=1e-12)
    # Of two sources alone, what both give beyond each by itself is two entries.
    both = written(mlp, sources[:1] + sources[1:2]) - written(mlp, sources[:1])
    cross = (both - written(mlp, sources[1:2]))[0] @ u.T
    np.testing.assert_allclose(2 * terms[:, 0, 1], cross, atol=1e-12)
    table = token_interactions(
        interaction_matrices(mlp, jnp.asarray(u)), jnp.asarray(sources), jnp.asarray(sources)
    )
    np.testing.assert_allclose(materialise(table), terms, atol=1e-12)
    best = top_k(table, 1)
    np.testing.assert_allclose(best.values[:, 0], terms.max(axis=(1, 2)), atol=1e-12)


@pytest.mark.parametrize("norm", ["none", "rmsnorm"])
def test_a_model_is_read_with_its_gains_and_stays_itself_when_frozen(norm, x64) -> None:
    spec = BILINEAR.replace(n_layers=2, norm=norm, init_embed=2.0)
    model = init(jax.random.key(0), spec)
    if norm == "rmsnorm":
        gain = 1 + jnp.arange(8.0).reshape(2, 4) / 8
        blocks = model.blocks._replace(mlp_norm=model.blocks.mlp_norm._replace(gain=gain))
        model = model.replace(blocks=blocks)
    tokens = jnp.asarray([3, 1, 4, 1, 5])
    seen = run_model(model, tokens, outputs=True)
    held = run_model(model, tokens, freeze(seen.trace))
    np.testing.assert_allclose(held.logits, seen.logits, atol=1e-12)
    layer = jax.tree.map(lambda leaf: leaf[1], bilinear_mlps(model))
    read = seen.streams[2] - seen.trace.mlp_outputs[1]
    scale = 1.0 if norm == "none" else np.sqrt((np.asarray(read) ** 2).mean(1) + spec.norm_eps)
    matrices = interaction_matrices(layer, jnp.eye(4))
    want = np.einsum("ti,oij,tj->to", read, matrices, read) / np.reshape(scale, (-1, 1)) ** 2
    np.testing.assert_allclose(seen.trace.mlp_outputs[1], want, atol=1e-12)
