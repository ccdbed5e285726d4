"""Bilinear MLPs: interaction matrices, eigenvectors and truncation against NumPy's own sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights.mlps import (
    as_eigenvectors,
    bilinear_mlps,
    interaction_eigenvectors,
    interaction_matrices,
    kept_eigenvectors,
    output_basis,
    pair_terms,
    token_interactions,
)
from circuitax.kernel.chain import materialise
from circuitax.kernel.interventions import freeze
from circuitax.kernel.mlp import Activation, apply_mlp
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.streaming import top_k
from circuitax.kernel.weights import MLPWeights
from circuitax.models.transformer import init

D, M = 5, 7
BILINEAR = TransformerSpec(11, 6, 1, 2, 4, d_mlp=3, gated=True, activation=Activation.linear)


@pytest.fixture
def mlp(rng, x64) -> MLPWeights:
    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape))

    return MLPWeights(normal(D, M), normal(M, D), b_out=normal(D), W_gate=normal(D, M))


def written(mlp: MLPWeights, x: np.ndarray) -> np.ndarray:
    """What the MLP writes to each row, unit by unit, without its constant."""
    total = np.zeros_like(x)
    for k in range(mlp.W_in.shape[1]):
        read = (x @ np.asarray(mlp.W_gate)[:, k]) * (x @ np.asarray(mlp.W_in)[:, k])
        total += read[:, None] * np.asarray(mlp.W_out)[k]
    return total


def test_interaction_matrices_are_symmetric_and_give_what_is_written(mlp, rng) -> None:
    u, x = rng.normal(size=(2, 3, D)), rng.normal(size=(4, D))
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
    matrices = interaction_matrices(mlp, jnp.asarray(rng.normal(size=(3, D))))
    found = interaction_eigenvectors(matrices)
    values, vectors = map(np.asarray, found)
    assert (np.diff(np.abs(values), axis=-1) <= 0).all() and (values < 0).any()
    again = np.einsum("oik,ok,ojk->oij", vectors, values, vectors)
    np.testing.assert_allclose(again, matrices, atol=1e-12)
    for matrix, own in zip(np.asarray(matrices), values, strict=True):
        np.testing.assert_allclose(np.sort(own), np.linalg.eigvalsh(matrix), atol=1e-12)


def test_the_basis_of_outputs_is_that_of_the_unfolded_tensor(mlp) -> None:
    basis = np.asarray(output_basis(mlp))
    np.testing.assert_allclose(basis @ basis.T, np.eye(D), atol=1e-12)
    gate, value, out = (np.asarray(W) for W in (mlp.W_gate, mlp.W_in, mlp.W_out))
    tensor = np.zeros((D, D, D))
    for k in range(M):
        outer = np.outer(gate[:, k], value[:, k])
        tensor += out[k][:, None, None] * (outer + outer.T) / 2
    left, sizes, _ = np.linalg.svd(tensor.reshape(D, -1), full_matrices=False)
    np.testing.assert_allclose(np.abs(basis @ left), np.eye(D), atol=1e-9)
    norms = np.linalg.norm(interaction_matrices(mlp, jnp.asarray(basis)), axis=(1, 2))
    np.testing.assert_allclose(norms, sizes, rtol=1e-10)


def test_eigenvectors_as_units_are_the_same_mlp_and_few_are_the_largest(mlp, rng) -> None:
    x = rng.normal(size=(4, D))
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
    two = jnp.broadcast_to(jnp.arange(2), (D, 2))
    kept = kept_eigenvectors(whole, two)
    assert kept.W_out.shape == (2 * D, D)
    found = apply_mlp(kept, jnp.asarray(x), "linear") - mlp.b_out[None]
    np.testing.assert_allclose(found, want, atol=1e-11)
    assert np.abs(want - written(mlp, x)).max() > 0.1
    with pytest.raises(ValueError, match=f"places has {D - 1} rows, must have d_model={D}"):
        kept_eigenvectors(whole, two[1:])


def test_pairs_of_sources_add_up_to_what_is_written(mlp, rng) -> None:
    sources, u = rng.normal(size=(3, D)), rng.normal(size=(2, D))
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


def test_derivatives_are_those_of_differences(mlp, rng) -> None:
    u = jnp.asarray(rng.normal(size=D))

    def top(mlp: MLPWeights):
        return interaction_eigenvectors(interaction_matrices(mlp, u)).values[0]

    slope = jax.grad(top)(mlp).W_in[1, 2]
    step = jnp.zeros((D, M)).at[1, 2].set(1e-5)
    ends = [top(mlp._replace(W_in=mlp.W_in + sign * step)) for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


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


def test_what_is_not_bilinear_is_refused(mlp) -> None:
    def refused(match: str, **changes) -> None:
        model = init(jax.random.key(0), BILINEAR.replace(**changes))
        with pytest.raises(ValueError, match=match):
            bilinear_mlps(model)

    refused("model.blocks.mlp must be gated MLPs", gated=False)
    refused("spec.activation=silu must be linear", activation="silu")
    refused("mlp.b_in must be None", biases=True)
    refused("mlp.b_in must be None, and its norm without offset", norm="layernorm")
    with pytest.raises(ValueError, match="W_gate has shape None, must be one layer's"):
        interaction_matrices(mlp._replace(W_gate=None), jnp.eye(D))
