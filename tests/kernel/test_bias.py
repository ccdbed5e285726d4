"""S0 footnote 2 with E25: biases as one more coordinate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward, with_start
from circuitax.kernel.gauge import fold_affine, fold_biases, with_constant
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

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


def test_folding_absent_biases_keeps_the_function(make_transformer) -> None:
    model, tokens = make_transformer(score_scale=1.0), jnp.array([3, 1, 4])
    got, _ = run(fold_biases(model), tokens)
    np.testing.assert_allclose(got, run(model, tokens)[0], rtol=1e-4, atol=1e-4)


def test_what_cannot_be_folded_is_refused(make_transformer) -> None:
    with pytest.raises(ValueError, match=r"norm=layernorm must be none"):
        fold_biases(make_transformer(norm=Norm.layernorm))
    with pytest.raises(ValueError, match=r"blocks\.mlp must be None"):
        fold_biases(make_transformer(mlp=True))
    with pytest.raises(ValueError, match="positions=sinusoidal depends on d_model"):
        fold_biases(make_transformer(positions=Positions.sinusoidal))


def test_the_start_token_goes_in_front_of_every_text() -> None:
    got = with_start(jnp.array([[1, 2], [3, 4]]), 9)
    np.testing.assert_array_equal(got, [[9, 1, 2], [9, 3, 4]])
