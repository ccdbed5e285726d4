"""Attention step by step: S0 Definitions 7 and 8, Remarks 9 and 11, S2's worked example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import attention
from circuitax.kernel.attention import softmax


def column_softmax_rows(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def column_softmax_rows_of(s: np.ndarray) -> np.ndarray:
    return np.stack([column_softmax_rows(head) for head in s])


def positions(n: int) -> jax.Array:
    return jnp.arange(n)


def run_head(
    x: jax.Array, W_Q: jax.Array, W_K: jax.Array, W_V: jax.Array, scale: float, causal: bool
) -> tuple[jax.Array, jax.Array]:
    q, k, v = (attention.project(x, W) for W in (W_Q, W_K, W_V))
    mask = attention.causal_mask(positions(len(x)), positions(len(x)), causal)
    pattern = attention.attention_pattern(attention.attention_scores(q, k, scale), mask)
    return attention.mix_values(pattern, v), pattern


def test_S0_def_7_and_8_in_columns(x64: None, rng: np.random.Generator) -> None:
    """Heads as the source writes them, X [d, n], concatenated along features, times one W_O."""
    d, n, d_k, n_heads = 6, 5, 3, 2
    X = rng.standard_normal((d, n))
    W_Q, W_K, W_V = (rng.standard_normal((n_heads, d_k, d)) for _ in range(3))
    W_O = rng.standard_normal((d, n_heads * d_k))
    heads = []
    for h in range(n_heads):
        Q, K, V = W_Q[h] @ X, W_K[h] @ X, W_V[h] @ X
        A = column_softmax_rows(Q.T @ K / np.sqrt(d_k))
        heads.append(V @ A.T)
    want = W_O @ np.concatenate(heads, axis=0)

    rows = [jnp.asarray(W.transpose(0, 2, 1)) for W in (W_Q, W_K, W_V)]
    mixed, _ = run_head(jnp.asarray(X.T), *rows, 1 / np.sqrt(d_k), False)
    ours = jnp.asarray(np.stack(np.split(W_O.T, n_heads)))
    np.testing.assert_allclose(attention.write_heads(mixed, ours), want.T, rtol=1e-12, atol=1e-12)
    each = attention.head_outputs(mixed, ours)
    np.testing.assert_allclose(each.sum(axis=0), want.T, rtol=1e-12, atol=1e-12)
    for h in range(n_heads):
        alone = W_O[:, h * d_k : (h + 1) * d_k] @ heads[h]
        np.testing.assert_allclose(each[h], alone.T, rtol=1e-12, atol=1e-12)


def test_S0_rmk_9_head_dimension_bounds_the_rank(x64: None, rng: np.random.Generator) -> None:
    W_V, W_O = rng.standard_normal((1, 8, 3)), rng.standard_normal((1, 3, 8))
    assert np.linalg.matrix_rank(W_V[0] @ W_O[0]) == 3
    x = jnp.asarray(rng.standard_normal((7, 8)))
    out = attention.head_outputs(attention.project(x, jnp.asarray(W_V)), jnp.asarray(W_O))
    assert np.linalg.matrix_rank(np.asarray(out[0])) == 3


# S2's worked example: keys and values of A, B, C.
KEYS = jnp.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
VALUES = jnp.eye(3)[None]


def attend(query: tuple[float, float], dest: int) -> np.ndarray:
    scores = attention.attention_scores(jnp.array([[query]]), KEYS, 2**-0.5)
    mask = attention.causal_mask(jnp.array([dest]), positions(3))
    return np.asarray(attention.mix_values(attention.attention_pattern(scores, mask), VALUES))[0, 0]


def test_E19_S2_worked_example_to_four_decimals() -> None:
    out = attend((1.0, 1.0), 2)
    np.testing.assert_allclose(out, [0.2483, 0.2483, 0.5035], atol=5e-5)
    assert np.abs(out - [0.25, 0.25, 0.50]).max() > 1e-3, "printed weights are rounded"


def test_E19_S2_exercise_for_B() -> None:
    np.testing.assert_allclose(attend((0.0, 1.0), 1), [0.3302, 0.6698, 0.0], atol=5e-5)


def test_E13_score_scale_is_explicit(x64: None, rng: np.random.Generator) -> None:
    q, k = (jnp.asarray(rng.standard_normal((1, 4, 9))) for _ in range(2))
    trained = attention.attention_scores(q, k, 1 / 3)
    paper = attention.attention_scores(q, k, 1.0)
    np.testing.assert_allclose(trained, paper / 3, rtol=1e-12)
    assert np.abs(np.asarray(softmax(trained) - softmax(paper))).max() > 0.05
    # Folded into the query map, the paper's formula is that of the trained model.
    np.testing.assert_allclose(attention.attention_scores(q / 3, k, 1.0), trained, rtol=1e-12)


def test_E21_linear_in_x_for_a_frozen_pattern_only(x64: None, rng: np.random.Generator) -> None:
    W_Q, W_K, W_V = (jnp.asarray(rng.standard_normal((2, 4, 3))) for _ in range(3))
    x, y = (jnp.asarray(rng.standard_normal((5, 4))) for _ in range(2))

    def scores(x: jax.Array) -> jax.Array:
        return attention.attention_scores(attention.project(x, W_Q), attention.project(x, W_K), 1.0)

    np.testing.assert_allclose(scores(2 * x), 4 * scores(x), rtol=1e-12)
    _, frozen = run_head(x, W_Q, W_K, W_V, 1.0, True)

    def linear(x: jax.Array) -> jax.Array:
        return attention.mix_values(frozen, attention.project(x, W_V))

    np.testing.assert_allclose(linear(x + y), linear(x) + linear(y), rtol=1e-10, atol=1e-12)

    def live(x: jax.Array) -> jax.Array:
        return run_head(x, W_Q, W_K, W_V, 1.0, True)[0]

    assert np.abs(np.asarray(live(x + y) - live(x) - live(y))).max() > 0.1


def test_E21_softmax_runs_over_sources(rng: np.random.Generator) -> None:
    scores = jnp.asarray(rng.standard_normal((1, 4, 4)), jnp.float32)
    pattern = attention.attention_pattern(scores, jnp.ones((4, 4), bool))
    np.testing.assert_allclose(pattern.sum(axis=2), 1, rtol=1e-6)
    assert np.abs(np.asarray(pattern.sum(axis=1)) - 1).max() > 0.05, "the source's columns"


def masked_after(scores: jax.Array, mask: jax.Array) -> jax.Array:
    """What "forcing A to be lower triangular" says, taken at its word."""
    return jnp.where(mask, softmax(scores), 0)


@pytest.mark.parametrize(
    ("pattern_of", "leaks"), [(attention.attention_pattern, False), (masked_after, True)]
)
def test_E22_gradients_tell_mask_before_from_mask_after(
    x64: None, rng: np.random.Generator, pattern_of: object, leaks: bool
) -> None:
    """S0 Remark 11: output i may depend on inputs j <= i only."""
    W_Q, W_K, W_V = (jnp.asarray(rng.standard_normal((2, 4, 3))) for _ in range(3))
    mask = attention.causal_mask(positions(5), positions(5))

    def head(x: jax.Array) -> jax.Array:
        q, k, v = (attention.project(x, W) for W in (W_Q, W_K, W_V))
        pattern = pattern_of(attention.attention_scores(q, k, 1.0), mask)  # type: ignore[operator]
        return attention.mix_values(pattern, v).sum(axis=(0, 2))

    jacobian = np.asarray(jax.jacobian(head)(jnp.asarray(rng.standard_normal((5, 4)))))
    influence = np.abs(jacobian).sum(axis=2)
    future = influence[np.triu_indices(5, 1)]
    assert (influence[np.tril_indices(5)] > 1e-6).all()
    assert (future.max() > 1e-3) if leaks else (future.max() == 0)


def test_S0_rmk_11_causal_pattern_is_lower_triangular(rng: np.random.Generator) -> None:
    scores = jnp.asarray(rng.standard_normal((2, 4, 4)), jnp.float32)
    masks = [attention.causal_mask(positions(4), positions(4), causal) for causal in (True, False)]
    causal, full = (np.asarray(attention.attention_pattern(scores, m)) for m in masks)
    assert (np.triu(causal, 1) == 0).all()
    assert (full > 0).all()
    np.testing.assert_allclose(causal.sum(axis=-1), 1, rtol=1e-6)


def test_dividing_after_mixing_is_the_same_in_value_and_gradient(
    x64: None, rng: np.random.Generator
) -> None:
    scores, v = rng.standard_normal((2, 5, 5)), rng.standard_normal((2, 5, 3))
    mask = attention.causal_mask(positions(5), positions(5))
    weight = jnp.asarray(rng.standard_normal((2, 5, 3)))

    def after(scores: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        mixed, pattern = attention.attend(scores, mask, v)
        return (weight * mixed).sum() + (pattern**3).sum(), pattern

    def before(scores: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        pattern = attention.attention_pattern(scores, mask)
        return (weight * attention.mix_values(pattern, v)).sum() + (pattern**3).sum(), pattern

    arguments = jnp.asarray(scores), jnp.asarray(v)
    got, want = (jax.value_and_grad(f, (0, 1), has_aux=True)(*arguments) for f in (after, before))
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    masked = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    np.testing.assert_allclose(got[0][1], column_softmax_rows_of(masked), rtol=1e-12)


def test_smeared_keys(x64: None, rng: np.random.Generator) -> None:
    k, alpha = rng.standard_normal((2, 4, 3)), np.array([0.7, -30.0])
    got = np.asarray(attention.smear_keys(jnp.asarray(k), jnp.asarray(alpha)))
    for h in range(2):
        own = 1 / (1 + np.exp(-alpha[h]))
        np.testing.assert_allclose(got[h, 0], k[h, 0], rtol=1e-12)
        for j in range(1, 4):
            want = own * k[h, j] + (1 - own) * k[h, j - 1]
            np.testing.assert_allclose(got[h, j], want, rtol=1e-12)
    np.testing.assert_allclose(got[1, 1:], k[1, :-1], atol=1e-10)
