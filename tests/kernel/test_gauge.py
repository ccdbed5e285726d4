"""Changes of weights that leave outputs unchanged: gauges, folded biases, value matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import gauge
from circuitax.kernel.chain import Chain, chain_of, materialise
from circuitax.kernel.forward import forward, with_start
from circuitax.kernel.gauge import (
    collapse_values,
    factor_values,
    fold_affine,
    fold_biases,
    with_constant,
)
from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import HeadStack

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


run = jax.jit(forward, static_argnames="outputs")


def test_S0_footnote_2_affine_maps_in_sequence(x64: None, rng: np.random.Generator) -> None:
    x, W1, b1 = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), rng.standard_normal(5)
    W2, b2 = rng.standard_normal((5, 2)), rng.standard_normal(2)
    folded = with_constant(jnp.asarray(x))
    for W, b in ((W1, b1), (W2, b2)):
        folded = folded @ fold_affine(jnp.asarray(W), jnp.asarray(b), residual=False)
    want = (x @ W1 + b1) @ W2 + b2
    np.testing.assert_allclose(folded, np.c_[want, np.ones(4)], rtol=1e-12)
    column = np.block([[W1.T, b1[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])
    np.testing.assert_allclose(
        fold_affine(jnp.asarray(W1), jnp.asarray(b1), residual=False).T, column, rtol=1e-12
    )


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_E25_the_constant_doubles_at_every_layer_unless_writes_leave_it(
    x64: None, rng: np.random.Generator, n_layers: int
) -> None:
    x = rng.standard_normal((4, 3))
    plain, right, printed = x, with_constant(jnp.asarray(x)), with_constant(jnp.asarray(x))
    for _ in range(n_layers):
        W, b = rng.standard_normal((3, 3)), rng.standard_normal(3)
        plain = plain + plain @ W + b
        right = right + right @ fold_affine(jnp.asarray(W), jnp.asarray(b), residual=True)
        printed = printed + printed @ fold_affine(jnp.asarray(W), jnp.asarray(b), residual=False)
    np.testing.assert_allclose(right, np.c_[plain, np.ones(4)], rtol=1e-12)
    np.testing.assert_allclose(printed[:, -1], 2.0**n_layers)  # 8 after three layers
    if n_layers > 1:
        assert np.abs(np.asarray(printed[:, :-1]) - plain).max() > 0.1


@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_E25_a_whole_model_without_its_biases(x64: None, make_transformer, n_layers: int) -> None:
    model = make_transformer(n_layers=n_layers, bias=True, positions=Positions.learned)
    tokens = jnp.array([3, 1, 4, 1, 5, 9])
    want, trace = run(model, tokens)
    folded = fold_biases(model)
    got, folded_trace = run(folded, tokens)
    assert folded.b_U is None
    assert all(b is None for b in folded.blocks.attention[4:8])
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(folded_trace.patterns, trace.patterns, rtol=1e-10)
    np.testing.assert_allclose(folded_trace.streams[..., -1], 1, rtol=1e-12)
    np.testing.assert_allclose(folded_trace.streams[..., :-1], trace.streams, rtol=1e-9)
    bare = model.replace(b_U=None)
    assert np.abs(np.asarray(run(bare, tokens)[0] - want)).max() > 0.1
    assert (folded.d_model, folded.d_value, folded.spec.scale) == (9, 6, model.spec.scale)


def test_the_start_token_goes_in_front_of_every_text() -> None:
    got = with_start(jnp.array([[1, 2], [3, 4]]), 9)
    np.testing.assert_array_equal(got, [[9, 1, 2], [9, 3, 4]])


def test_E31_both_forms_give_the_same_model_up_to_the_rank(
    x64: None, rng: np.random.Generator
) -> None:
    W_V, W_O = rng.standard_normal((2, 3, 6, 2)), rng.standard_normal((2, 3, 2, 6))
    collapsed = collapse_values(jnp.asarray(W_V), jnp.asarray(W_O))
    np.testing.assert_allclose(collapsed, np.einsum("lhdv,lhve->lhde", W_V, W_O), rtol=1e-12)
    again = factor_values(collapsed, 2)
    np.testing.assert_allclose(again[0] @ again[1], collapsed, rtol=1e-10, atol=1e-12)
    assert again[0].shape == W_V.shape

    W_Q, W_K = (jnp.asarray(rng.standard_normal((2, 3, 6, 4))) for _ in range(2))
    identity = jnp.broadcast_to(jnp.eye(6), (2, 3, 6, 6))
    W_E, W_U = jnp.asarray(rng.standard_normal((5, 6))), jnp.asarray(rng.standard_normal((6, 5)))
    run = jax.jit(forward)
    logits = [
        run(
            Model.of(W_E=W_E, W_U=W_U, attention=HeadStack(W_Q, W_K, V, O)),
            jnp.array([4, 0, 2]),
        )[0]
        for V, O in ((jnp.asarray(W_V), jnp.asarray(W_O)), again, (collapsed, identity))
    ]
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(logits[2], logits[0], rtol=1e-9, atol=1e-11)


def test_E31_a_full_matrix_is_no_pair(x64: None, rng: np.random.Generator) -> None:
    full = jnp.asarray(rng.standard_normal((6, 6)))
    with pytest.raises(ValueError, match="d_value=2 must be at least the rank of collapsed, 6"):
        factor_values(full, 2)
    W_V, W_O = factor_values(full, 6)
    np.testing.assert_allclose(W_V @ W_O, full, rtol=1e-10, atol=1e-12)
    singular = np.linalg.svd(np.asarray(full), compute_uv=False)
    assert singular[2] / singular[0] > 0.1, "what the printed equivalence would throw away"


def test_width_must_fit_the_stream() -> None:
    with pytest.raises(ValueError, match=r"d_value=7 must lie in \[1, d_model=6\]"):
        factor_values(jnp.eye(6), 7)
