"""S0 Definition 5 with further hidden layers, alone and inside both families of transformers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuitax.kernel.forward import forward
from circuitax.kernel.mlp import Activation, apply_mlp, hidden_units
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import MLPWeights

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
ORACLE = {
    "relu": lambda z: np.maximum(z, 0),
    "gelu": lambda z: z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))),
    "silu": lambda z: z / (1 + np.exp(-z)),
}


def make(rng: np.random.Generator, n_extra: int, biases: bool = True) -> MLPWeights:
    shapes = {"W_in": (4, 6), "W_hidden": (n_extra, 6, 6), "W_out": (6, 4)}
    if biases:
        shapes |= {"b_in": (6,), "b_hidden": (n_extra, 6), "b_out": (4,)}
    return MLPWeights(**{name: jnp.asarray(rng.standard_normal(s)) for name, s in shapes.items()})


def test_a_network_of_depth_2_by_hand() -> None:
    """1 -> (1, -1) -> relu (1, 0) -> (3 - 1, 5 - 6) -> relu (2, 0) -> 2 * 7 + 1."""
    weights = MLPWeights(
        W_in=jnp.array([[1.0, -1.0]]),
        W_hidden=jnp.array([[[3.0, 5.0], [100.0, 100.0]]]),
        b_hidden=jnp.array([[-1.0, -6.0]]),
        W_out=jnp.array([[7.0], [1000.0]]),
        b_out=jnp.array([1.0]),
    )
    assert float(apply_mlp(weights, jnp.ones((1, 1)), Activation.relu)[0, 0]) == 15
    np.testing.assert_array_equal(hidden_units(weights, jnp.ones((1, 1)), "relu"), [[2, 0]])


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("name", list(ORACLE))
def test_S0_def_5_further_layers_in_columns_position_by_position(
    x64: None, rng: np.random.Generator, name: str, biases: bool
) -> None:
    weights, x = make(rng, 2, biases), rng.standard_normal((3, 4))
    raw = jax.tree.map(np.asarray, weights)
    got = np.asarray(apply_mlp(weights, jnp.asarray(x), name))
    for column, y in zip(x, got, strict=True):
        hidden = ORACLE[name](raw.W_in.T @ column + (raw.b_in if biases else 0))
        for i in range(2):
            hidden = raw.W_hidden[i].T @ hidden + (raw.b_hidden[i] if biases else 0)
            hidden = ORACLE[name](hidden)
        want = raw.W_out.T @ hidden + (raw.b_out if biases else 0)
        np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)


def test_S1_a_linear_mlp_of_any_depth_collapses(x64: None, rng: np.random.Generator) -> None:
    weights, x = make(rng, 3, biases=False), rng.standard_normal((3, 4))
    matrix = np.linalg.multi_dot([weights.W_in, *weights.W_hidden, weights.W_out])
    linear = apply_mlp(weights, jnp.asarray(x), Activation.linear)
    np.testing.assert_allclose(linear, x @ matrix, rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), n_extra=st.integers(1, 4))
def test_identity_layers_of_relus_change_nothing(seed: int, n_extra: int) -> None:
    weights = make(np.random.default_rng(seed), n_extra)
    through = weights._replace(
        W_hidden=jnp.tile(jnp.eye(6), (n_extra, 1, 1)), b_hidden=jnp.zeros((n_extra, 6))
    )
    shallow = weights._replace(W_hidden=None, b_hidden=None)
    x = jnp.asarray(np.random.default_rng(seed).standard_normal((3, 4)))
    same = apply_mlp(through, x, Activation.relu)
    np.testing.assert_array_equal(same, apply_mlp(shallow, x, Activation.relu))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jit_vmap_and_grad(x64: None, rng: np.random.Generator, dtype: str) -> None:
    weights = jax.tree.map(lambda leaf: leaf.astype(dtype), make(rng, 2))
    texts = jnp.asarray(rng.standard_normal((5, 3, 4)), dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-12}

    def loss(weights: MLPWeights) -> jax.Array:
        y = jax.vmap(lambda x: apply_mlp(weights, x, Activation.gelu))(texts)
        assert y.dtype == dtype
        return (y**2).mean()

    alone = [np.mean(np.asarray(apply_mlp(weights, x, Activation.gelu)) ** 2) for x in texts]
    np.testing.assert_allclose(jax.jit(loss)(weights), np.mean(alone), **tolerance)
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), weights)
    each = [loss(jax.tree.map(lambda leaf, i=i: leaf[i], members)) for i in range(2)]
    np.testing.assert_allclose(jax.jit(jax.vmap(loss))(members), each, **tolerance)
    slope = jax.jit(jax.grad(loss))(weights)
    for name in ("W_hidden", "b_hidden"):
        assert getattr(slope, name).dtype == dtype
        if dtype == "float64":
            array, at = getattr(weights, name), (1, 4) if name == "b_hidden" else (1, 2, 4)
            up, down = (weights._replace(**{name: array.at[at].add(d)}) for d in (1e-6, -1e-6))
            difference = (loss(up) - loss(down)) / 2e-6
            np.testing.assert_allclose(getattr(slope, name)[at], difference, rtol=1e-6)


def test_a_gate_beside_further_layers_is_refused(rng: np.random.Generator) -> None:
    weights = make(rng, 1)
    gated = weights._replace(W_gate=weights.W_in)
    with pytest.raises(ValueError, match=r"weights\.W_hidden must be None beside weights\.W_gate"):
        apply_mlp(gated, jnp.ones((2, 4)), Activation.silu)


def oracle(model: Model, normed: bool) -> np.ndarray:
    """Causal learned-position transformer with biases and GELU in NumPy, bare or pre-LN."""
    W = jax.tree.map(np.asarray, model)
    b = W.blocks

    def ln(x: np.ndarray, gain: np.ndarray, offset: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + offset

    x = W.W_E[TOKENS] + W.W_pos
    for i in range(b.mlp.W_in.shape[0]):
        read = ln(x, b.attention_norm.gain[i], b.attention_norm.offset[i]) if normed else x
        a = b.attention
        update = np.zeros_like(x) + a.b_O[i]
        for h in range(a.W_Q.shape[1]):
            q, k, v = (
                read @ m[i, h] + c[i, h]
                for m, c in ((a.W_Q, a.b_Q), (a.W_K, a.b_K), (a.W_V, a.b_V))
            )
            scores = np.where(np.tril(np.ones((6, 6))) > 0, q @ k.T / 2, -np.inf)
            A = np.exp(scores - scores.max(axis=1, keepdims=True))
            update += A / A.sum(axis=1, keepdims=True) @ v @ a.W_O[i, h]
        x = x + update
        read = ln(x, b.mlp_norm.gain[i], b.mlp_norm.offset[i]) if normed else x
        hidden = ORACLE["gelu"](read @ b.mlp.W_in[i] + b.mlp.b_in[i])
        for j in range(b.mlp.W_hidden.shape[1]):
            hidden = ORACLE["gelu"](hidden @ b.mlp.W_hidden[i, j] + b.mlp.b_hidden[i, j])
        x = x + hidden @ b.mlp.W_out[i] + b.mlp.b_out[i]
    final = ln(x, W.final_norm.gain, W.final_norm.offset) if normed else x
    return final @ W.W_U + W.b_U


@pytest.mark.parametrize("normed", [False, True])
def test_both_families_with_mlps_of_depth_3(x64: None, make_transformer, normed: bool) -> None:
    model = make_transformer(
        bias=True,
        mlp=True,
        n_extra=2,
        norm=Norm.layernorm if normed else Norm.none,
        positions=Positions.learned,
    )
    assert model.spec.mlp_depth == 3
    logits, trace = jax.jit(forward, static_argnames="outputs")(model, TOKENS, outputs=True)
    want = oracle(model, normed)
    np.testing.assert_allclose(logits, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())
    writes = trace.head_outputs.sum(axis=1) + trace.mlp_outputs
    writes = writes + model.blocks.attention.b_O[:, None]
    np.testing.assert_allclose(trace.streams[1:] - trace.streams[:-1], writes, atol=1e-11)
