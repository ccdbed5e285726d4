"""What S1 says of attention in words: who reads whom, why scores are scaled, and with what."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import attention
from circuitax.kernel.attention import softmax
from circuitax.kernel.mlp import Activation, apply_mlp
from circuitax.kernel.weights import MLPWeights

N, D, K = 3, 4, 2  # "a cat sat"
PLACES = jnp.arange(N)
CAUSAL = attention.causal_mask(PLACES, PLACES)


class Layer:
    """S1's layer of one head, as functions of rows."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.W_Q, self.W_K = (jnp.asarray(rng.standard_normal((1, D, K))) for _ in range(2))
        self.W_V = jnp.asarray(rng.standard_normal((1, D, D)))
        self.mlp_weights = MLPWeights(
            jnp.asarray(rng.standard_normal((D, 6))), jnp.asarray(rng.standard_normal((6, D)))
        )

    def values(self, x: jax.Array) -> jax.Array:
        return attention.project(x, self.W_V)

    def scores(self, x: jax.Array) -> jax.Array:
        q, k = attention.project(x, self.W_Q), attention.project(x, self.W_K)
        return attention.attention_scores(q, k, K**-0.5)

    def head(self, x: jax.Array) -> jax.Array:
        pattern = attention.attention_pattern(self.scores(x), CAUSAL)
        return attention.mix_values(pattern, self.values(x))[0]

    def mlp(self, x: jax.Array) -> jax.Array:
        return apply_mlp(self.mlp_weights, x, Activation.gelu)


@pytest.fixture
def layer(x64: None, rng: np.random.Generator) -> Layer:
    return Layer(rng)


@pytest.fixture
def rows(x64: None, rng: np.random.Generator) -> jax.Array:
    return jnp.asarray(rng.standard_normal((N, D)))


def reads(step: Callable[[jax.Array], jax.Array], x: jax.Array) -> np.ndarray:
    """Which rows of the input each row of the output depends on, by the Jacobian."""
    influence = np.abs(np.asarray(jax.jacobian(step)(x)))
    return influence.sum(axis=(1, 3)) > 1e-12


def test_S1_section_3_per_token_layers_cannot_do_context(layer: Layer, rows: jax.Array) -> None:
    """However many maps are applied token by token, "sat" stays what it is alone."""

    def per_token(x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = x + layer.mlp(x @ layer.W_V[0])
        return x

    np.testing.assert_array_equal(reads(per_token, rows), np.eye(N, dtype=bool))
    np.testing.assert_array_equal(reads(layer.head, rows), np.tril(np.ones((N, N), bool)))
    another = rows.at[1].add(1.0)  # "a dog sat"
    np.testing.assert_allclose(per_token(another)[2], per_token(rows)[2], rtol=1e-12)
    assert np.abs(np.asarray(layer.head(another) - layer.head(rows))[2]).max() > 1e-3


def test_S1_summary_table_what_each_step_operates_on(layer: Layer, rows: jax.Array) -> None:
    """Per token, all token pairs, per query, across tokens: row by row of the table."""
    alone = np.eye(N, dtype=bool)
    np.testing.assert_array_equal(reads(lambda x: layer.values(x)[0], rows), alone)
    # scores: entry (i, j) reads tokens i and j, and no third
    pairs = np.abs(np.asarray(jax.jacobian(lambda x: layer.scores(x)[0])(rows))).sum(-1) > 1e-12
    np.testing.assert_array_equal(pairs, alone[:, None, :] | alone[None, :, :])
    # softmax and mask: each row for itself, and not beyond its own place
    scores = layer.scores(rows)
    jacobian = jax.jacobian(lambda s: attention.attention_pattern(s[None], CAUSAL)[0])(scores[0])
    queries = np.abs(np.asarray(jacobian)) > 1e-12
    visible = np.asarray(CAUSAL) & (np.arange(N) > 0)[:, None]  # the first row is always 1
    want = alone[:, None, :, None] & visible[:, :, None, None] & visible[None, None, :, :]
    np.testing.assert_array_equal(queries, want)
    # A V with the pattern given: across tokens
    pattern = attention.attention_pattern(scores, CAUSAL)
    mixed = reads(lambda x: attention.mix_values(pattern, layer.values(x))[0], rows)
    np.testing.assert_array_equal(mixed, np.tril(np.ones((N, N), bool)))
    # residuals, MLP and unembedding: per token
    np.testing.assert_array_equal(reads(lambda x: x + layer.mlp(x), rows), alone)
    np.testing.assert_array_equal(reads(lambda x: x @ layer.W_V[0], rows), alone)


@pytest.mark.parametrize("d_k", [4, 256])
def test_S1_section_4_the_scale_keeps_scores_at_one_and_softmax_out_of_saturation(
    x64: None, rng: np.random.Generator, d_k: int
) -> None:
    """Dot products of unit-variance rows grow like √d_k, and softmax's Jacobian then vanishes."""
    q, k = (jnp.asarray(rng.standard_normal((1, n, d_k))) for n in (400, 64))
    plain, scaled = (attention.attention_scores(q, k, s)[0] for s in (1.0, d_k**-0.5))
    assert float(plain.std()) == pytest.approx(d_k**0.5, rel=0.1)
    assert float(scaled.std()) == pytest.approx(1, rel=0.1)

    def slope(scores: jax.Array) -> float:
        """Mean trace of ∂A_j/∂s_j over rows: near 1 for many sources, 0 when saturated."""
        jacobian = jax.vmap(jax.jacfwd(softmax))(scores)
        return float(jnp.trace(jacobian, axis1=1, axis2=2).mean())

    assert slope(scaled) > 0.9
    if d_k == 256:
        assert slope(plain) < 0.25


def test_E35_S1_per_token_weights_need_the_scale_of_the_matrix_form(
    layer: Layer, rows: jax.Array
) -> None:
    """Printed: α_ij = softmax_j⟨q_i, k_j⟩; the matrix form and the pseudocode divide by √d_k."""
    pattern = attention.attention_pattern(layer.scores(rows), CAUSAL)[0]
    q, k = (np.asarray(rows) @ np.asarray(W)[0] for W in (layer.W_Q, layer.W_K))

    def token_by_token(scale: float) -> np.ndarray:
        alpha = np.zeros((N, N))
        for i in range(N):
            weights = np.exp([scale * (q[i] @ k[j]) for j in range(i + 1)])
            alpha[i, : i + 1] = weights / weights.sum()
        return alpha

    np.testing.assert_allclose(pattern, token_by_token(1 / np.sqrt(K)), rtol=1e-12)
    assert np.abs(token_by_token(1.0) - np.asarray(pattern)).max() > 1e-2, "as printed"


def test_E30_S2_scores_of_rows_are_inner_products(layer: Layer, rows: jax.Array) -> None:
    """S2 prints q_iᵀ k_j beside q_i = x_i W_Q: for rows that is an outer product, not a score."""
    q, k = (rows[i : i + 1] @ W[0] for i, W in ((2, layer.W_Q), (1, layer.W_K)))
    assert (q.T @ k).shape == (K, K), "as printed"
    score = (q @ k.T)[0, 0] / np.sqrt(K)
    np.testing.assert_allclose(layer.scores(rows)[0, 2, 1], score, rtol=1e-12)
