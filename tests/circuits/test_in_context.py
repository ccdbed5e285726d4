"""Per-token losses against NumPy, and scores on losses made by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import in_context


def test_token_losses_are_cross_entropies(rng, x64):
    logits, tokens = rng.normal(size=(2, 4, 6)), rng.integers(0, 6, (2, 4))
    found = jax.jit(in_context.token_losses)(jnp.asarray(logits), jnp.asarray(tokens))
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = [[-np.log(p[b, t, tokens[b, t + 1]]) for t in range(3)] for b in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_in_context_score_is_late_minus_early():
    losses = jnp.array([[5.0, 4.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_allclose(in_context.in_context_score(losses, 2, 4), [-3, 0])
    with pytest.raises(ValueError, match=r"early=2, late=5 must satisfy"):
        in_context.in_context_score(losses, 2, 5)


def test_repeat_gain_counts_repeated_pairs_of_any_period():
    tokens = jnp.array([0, 1, 2, 0, 1, 3, 0, 1])
    # pairs 01 12 20 01 13 30 01: the fourth and the last are repeats
    np.testing.assert_array_equal(
        in_context.repeated_pairs(tokens), [False, False, False, True, False, False, True]
    )
    losses = jnp.array([4.0, 4.0, 4.0, 1.0, 4.0, 4.0, 2.0])
    np.testing.assert_allclose(in_context.repeat_gain(losses, tokens), 2.5)
    np.testing.assert_allclose(in_context.repeat_gain(losses[:2], tokens[:3]), 4.0)


def test_gradients_sum_to_zero_over_the_vocabulary(rng):
    logits = jnp.asarray(rng.normal(size=(3, 4)), jnp.float32)
    tokens = jnp.array([0, 3, 1])
    slope = jax.grad(lambda z: in_context.token_losses(z, tokens).sum())(logits)
    np.testing.assert_allclose(slope.sum(-1), 0, atol=1e-6)
    assert slope[0, 3] < 0 < slope[0, 0] and not slope[2].any()
