"""Composition scores with MLPs against norms of the maps of single units, and their null."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import special_ortho_group

import circuitax as cx
from circuitax.circuits.weights.mlps import mlp_composition

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


def test_a_silent_mlp_has_no_z_and_models_without_are_refused(x64):
    model = model_of(3, gated=False)
    mlp = model.blocks.mlp
    silent = mlp._replace(W_out=mlp.W_out.at[0].set(0))
    found = mlp_composition(model.replace(blocks=model.blocks._replace(mlp=silent)))
    assert found.mlp_to_mlp.score.shape[0] == 1
    assert found.mlp_to_mlp.score[0, 0, 1] == 0 and np.isnan(found.mlp_to_mlp.z[0, 0, 1])
    assert np.isfinite(found.mlp_to_mlp.z[0, 1, 2])
    with pytest.raises(ValueError, match=r"blocks\.mlp must be MLPs of one hidden layer"):
        mlp_composition(model.replace(blocks=model.blocks._replace(mlp=None)))
