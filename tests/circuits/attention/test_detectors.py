"""Detectors against loops over positions, written from the definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import detectors

TOKENS = np.array([3, 1, 4, 1, 5, 3, 1, 4, 4])


def _pattern(rng, n, heads=(2, 3)):
    raw = np.tril(rng.random((*heads, n, n)))
    return raw / raw.sum(-1, keepdims=True)


def _by_loop(pattern, tokens, rule):
    """Mean attention on the sources for which ``rule(t, s)`` holds, and its uniform null."""
    total, uniform, n_dest = 0.0, 0.0, 0
    for t in range(len(tokens)):
        sources = [s for s in range(t + 1) if rule(t, s)]
        if sources:
            total = total + pattern[..., t, sources].sum(-1)
            uniform += len(sources) / (t + 1)
            n_dest += 1
    return total / n_dest, uniform / n_dest, n_dest


RULES = {
    "previous": (detectors.previous_mask, lambda t, s: s == t - 1),
    "duplicate": (detectors.duplicate_mask, lambda t, s: s < t and TOKENS[s] == TOKENS[t]),
    "prefix": (
        detectors.prefix_mask,
        lambda t, s: s >= 1 and TOKENS[s - 1] == TOKENS[t] and s - 1 < t,
    ),
    "induction": (
        detectors.induction_mask,
        lambda t, s: (
            s >= 1
            and s - 1 < t < len(TOKENS) - 1
            and TOKENS[s - 1] == TOKENS[t]
            and TOKENS[s] == TOKENS[t + 1]
        ),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_scores_match_a_loop_over_positions(name, rng, x64):
    mask_of, rule = RULES[name]
    pattern = _pattern(rng, len(TOKENS))
    found = jax.jit(detectors.detect)(pattern, mask_of(jnp.asarray(TOKENS)))
    score, null, n_dest = _by_loop(pattern, TOKENS, rule)
    np.testing.assert_allclose(found.score, score, rtol=1e-12)
    np.testing.assert_allclose(found.null, null, rtol=1e-12)
    assert found.n_dest == n_dest > 0


def test_masks_by_hand():
    # a b a b: at position 2 (a) the prefix match is 1, at 3 (b) it is 2
    tokens = jnp.array([0, 1, 0, 1])
    np.testing.assert_array_equal(np.argwhere(detectors.prefix_mask(tokens)), [[2, 1], [3, 2]])
    np.testing.assert_array_equal(np.argwhere(detectors.induction_mask(tokens)), [[2, 1]])
    np.testing.assert_array_equal(np.argwhere(detectors.duplicate_mask(tokens)), [[2, 0], [3, 1]])


def test_prefix_matching_means_followed_by():
    """Attending to what stood *before* the earlier copy, the paper's first wording, scores 0."""
    tokens = jnp.array([7, 0, 1, 2, 0])
    follows, precedes = np.zeros((2, 5, 5), np.float32)
    follows[4, 2] = precedes[4, 0] = 1
    assert detectors.detect(jnp.asarray(follows), detectors.prefix_mask(tokens)).score == 1
    assert detectors.detect(jnp.asarray(precedes), detectors.prefix_mask(tokens)).score == 0


def test_repeats_of_any_period_are_found_and_a_fixed_offset_is_not():
    """A head that looks back a fixed number of steps cannot pass for a prefix matcher."""
    key = jax.random.key(0)
    scores = {}
    for period in (5, 8):
        once = jax.random.permutation(jax.random.fold_in(key, period), 20)[:period]
        tokens = jnp.tile(once, 3)
        mask = detectors.prefix_mask(tokens)
        rows = mask.sum(axis=-1, keepdims=True)
        perfect = jnp.where(rows > 0, mask / jnp.maximum(rows, 1), 0)
        fixed = jnp.eye(tokens.shape[0], k=-(5 - 1))
        scores[period] = detectors.detect(jnp.stack([perfect, fixed]), mask).score
    np.testing.assert_allclose(scores[5], [1, 1], atol=1e-6)
    np.testing.assert_allclose(scores[8], [1, 0], atol=1e-6)


def test_user_masks_not_causal(rng):
    mask = jnp.zeros((3, 3), bool).at[0, 2].set(True)
    pattern = jnp.full((3, 3), 1 / 3)
    assert detectors.detect(pattern, mask).n_dest == 0
    assert detectors.detect(pattern, mask).score == 0
    open_ended = detectors.detect(pattern, mask, causal=False)
    np.testing.assert_allclose([open_ended.score, open_ended.null], 1 / 3, rtol=1e-6)


def test_shuffled_null_sits_on_the_uniform_null_for_positional_heads(rng):
    """The previous-token head has prefix score by accident only: the null's mean says how much."""
    n, vocab = 64, 8
    tokens = jnp.asarray(rng.integers(0, vocab, n))
    pattern = jnp.eye(n, k=-1)
    null = jax.jit(detectors.shuffled_null, static_argnums=3)(
        jax.random.key(1), pattern, tokens, detectors.prefix_mask
    )
    score = detectors.detect(pattern, detectors.prefix_mask(tokens)).score
    assert abs(score - null.mean) < 4 * null.std
    prefix = detectors.prefix_mask(tokens)
    matcher = prefix / jnp.maximum(prefix.sum(axis=-1, keepdims=True), 1)
    null = jax.jit(detectors.shuffled_null, static_argnums=3)(
        jax.random.key(1), matcher, tokens, detectors.prefix_mask
    )
    assert 1 - null.mean > 10 * null.std


def test_scores_are_linear_in_the_pattern(rng):
    """The gradient is the mask over the number of destinations; vmap over texts agrees."""
    tokens = jnp.asarray(TOKENS)
    mask = detectors.duplicate_mask(tokens)
    pattern = jnp.asarray(_pattern(rng, len(TOKENS), ()), jnp.float32)
    gradient = jax.grad(lambda p: detectors.detect(p, mask).score)(pattern)
    np.testing.assert_allclose(gradient, mask / mask.any(-1).sum(), rtol=1e-6)
    both = jax.vmap(detectors.detect)(jnp.stack([pattern, pattern.T]), jnp.stack([mask, mask]))
    np.testing.assert_allclose(both.score[0], detectors.detect(pattern, mask).score, rtol=1e-6)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="offset=9 must be from 0 to 8"):
        detectors.previous_mask(jnp.asarray(TOKENS), 9)
    with pytest.raises(ValueError, match="n_shuffles=1 must be at least 2"):
        detectors.shuffled_null(
            jax.random.key(0),
            jnp.eye(9),
            jnp.asarray(TOKENS),
            detectors.duplicate_mask,
            n_shuffles=1,
        )
