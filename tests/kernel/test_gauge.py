"""Gauge changes leave every probability as it was, and change what a table shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from circuitax.kernel import gauge
from circuitax.kernel.chain import Chain, chain_of, materialise

VOCAB, D, K = 6, 4, 2
NEAR = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture
def circuit(rng: np.random.Generator, x64: None) -> Chain:
    """A QK circuit of two heads over tokens, [head, dest, src]."""
    W_E, W_Q, W_K = (rng.normal(size=s) for s in [(VOCAB, D), (2, D, K), (2, D, K)])
    return chain_of(W_E, W_Q, W_K.swapaxes(-1, -2), W_E.T)


@pytest.mark.parametrize("causal", [False, True])
def test_centring_sources_leaves_every_pattern(causal: bool, circuit: Chain) -> None:
    tokens = np.array([5, 0, 0, 3])
    mask = np.tril(np.ones((4, 4), bool)) if causal else np.ones((4, 4), bool)

    def pattern(qk: Chain) -> jax.Array:
        scores = materialise(qk)[:, tokens][:, :, tokens]
        return jax.nn.softmax(jnp.where(mask[None], scores, -jnp.inf), axis=-1)

    centred = gauge.centre_sources(circuit)
    np.testing.assert_allclose(pattern(centred), pattern(circuit), **NEAR)
    table = np.asarray(materialise(circuit))
    np.testing.assert_allclose(materialise(centred), table - table.mean(-1, keepdims=True), **NEAR)
    # centring over destinations, the wrong axis, is not a gauge
    wrong = gauge.centre_sources(circuit.T).T
    assert not np.allclose(pattern(wrong), pattern(circuit))


def test_centring_the_vocabulary_leaves_every_probability(
    rng: np.random.Generator, x64: None
) -> None:
    W_U, x = jnp.asarray(rng.normal(size=(D, VOCAB))), jnp.asarray(rng.normal(size=(3, D)))
    centred = gauge.centre_vocabulary(W_U)
    np.testing.assert_allclose(jax.nn.softmax(x @ centred), jax.nn.softmax(x @ W_U), **NEAR)
    np.testing.assert_allclose((x @ centred).sum(-1), np.zeros(3), atol=1e-12)
    wrong = gauge.centre_vocabulary(W_U.T).T  # centred over features instead
    assert not np.allclose(jax.nn.softmax(x @ wrong), jax.nn.softmax(x @ W_U))


def test_folding_the_score_scale_multiplies_every_score(circuit: Chain) -> None:
    table = np.asarray(materialise(circuit))
    folded = gauge.fold_score_scale(circuit, K**-0.5)
    np.testing.assert_allclose(materialise(folded), table / K**0.5, **NEAR)
    heads = gauge.fold_score_scale(circuit, jnp.array([1.0, 0.5]))
    np.testing.assert_allclose(
        materialise(heads), table * np.array([1.0, 0.5])[:, None, None], **NEAR
    )


def test_turning_the_inside_of_a_head_changes_nothing_outside(
    rng: np.random.Generator, x64: None
) -> None:
    W_Q, W_K, W_V = (jnp.asarray(rng.normal(size=(2, D, K))) for _ in range(3))
    W_O, R = jnp.asarray(rng.normal(size=(2, K, D))), jnp.asarray(rng.normal(size=(2, K, K)))
    Q, K_ = gauge.turn_qk(W_Q, W_K, R)
    np.testing.assert_allclose(
        Q @ jnp.matrix_transpose(K_), W_Q @ jnp.matrix_transpose(W_K), rtol=1e-11, atol=1e-11
    )
    V, O = gauge.turn_ov(W_V, W_O, R)
    np.testing.assert_allclose(V @ O, W_V @ W_O, rtol=1e-11, atol=1e-11)
    assert not np.allclose(Q, W_Q) and not np.allclose(V, W_V)
    # R on both sides is a gauge for orthogonal R only
    assert not np.allclose(
        (W_Q @ R) @ jnp.matrix_transpose(W_K @ R), W_Q @ jnp.matrix_transpose(W_K)
    )


def test_gauges_differentiate_and_vmap(circuit: Chain, rng: np.random.Generator) -> None:
    W, R = jnp.asarray(rng.normal(size=(2, D, K))), jnp.asarray(rng.normal(size=(2, K, K)))
    np.testing.assert_allclose(
        jax.jit(jax.vmap(gauge.turn_qk))(W, W, R)[1], gauge.turn_qk(W, W, R)[1], rtol=1e-11
    )
    check_grads(jax.jit(gauge.turn_qk), (W, W, R), order=1, modes=["rev"], rtol=1e-5)
    check_grads(jax.jit(gauge.centre_sources), (circuit,), order=1, modes=["rev"], rtol=1e-5)
