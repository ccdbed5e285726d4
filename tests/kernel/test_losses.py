"""Next-token losses against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import next_token_losses


def test_token_losses_are_cross_entropies(rng, x64):
    logits, tokens = rng.normal(size=(2, 4, 6)), rng.integers(0, 6, (2, 4))
    found = jax.jit(next_token_losses)(jnp.asarray(logits), jnp.asarray(tokens))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [[-np.log(p[b, t, tokens[b, t + 1]]) for t in range(3)] for b in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_token_losses_by_hand_and_at_large_logits(x64: None) -> None:
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]))
    tokens = jnp.array([2, 1, 0])
    np.testing.assert_allclose(next_token_losses(logits, tokens), -np.log([0.25, 0.1]), rtol=1e-12)
    shifted = next_token_losses(logits + 1e4, tokens)
    np.testing.assert_allclose(shifted, -np.log([0.25, 0.1]), rtol=1e-9)
    assert jnp.isfinite(jax.grad(lambda z: next_token_losses(z * 1e4, tokens).sum())(logits)).all()


def test_token_losses_keep_their_digits_beside_large_logits() -> None:
    logits = jnp.array([[0.0, -7.0, -9.0], [0.0, 0.0, 0.0]])
    tokens = jnp.array([1, 0])
    want = np.log1p(np.exp(-7.0) + np.exp(-9.0))
    np.testing.assert_allclose(next_token_losses(logits + 4096, tokens), [want], rtol=2e-4)


def test_token_losses_over_a_batch_is_one_text_at_a_time(rng: np.random.Generator) -> None:
    logits = jnp.array(rng.normal(size=(2, 4, 3)))
    tokens = jnp.array(rng.integers(3, size=(2, 4)))
    batched = next_token_losses(logits, tokens)
    assert batched.shape == (2, 3)
    np.testing.assert_allclose(batched[1], next_token_losses(logits[1], tokens[1]), rtol=1e-6)


def test_a_text_of_one_token_predicts_nothing() -> None:
    with pytest.raises(ValueError, match="n_ctx=1 must be at least 2"):
        next_token_losses(jnp.ones((1, 4)), jnp.zeros(1, int))


def test_gradients_sum_to_zero_over_the_vocabulary(rng):
    logits = jnp.asarray(rng.normal(size=(3, 4)), jnp.float32)
    tokens = jnp.array([0, 3, 1])
    slope = jax.grad(lambda z: next_token_losses(z, tokens).sum())(logits)
    np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-6)
    assert slope[0, 3] < 0 < slope[0, 0] and not slope[2].any()
