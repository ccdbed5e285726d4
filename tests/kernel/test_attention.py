"""Attention against loops and column formulas in NumPy, and the statements of its sources."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import attention
from circuitax.kernel.attention import empty_cache, masked_exponentials, masked_softmax, softmax
from circuitax.kernel.forward import forward
from circuitax.kernel.mlp import Activation, apply_mlp
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import MLPWeights


def test_S0_def_1_softmax(x64: None, rng: np.random.Generator) -> None:
    z = rng.standard_normal((3, 5))
    for axis in (0, 1):
        want = np.exp(z) / np.exp(z).sum(axis=axis, keepdims=True)
        got = softmax(jnp.asarray(z), axis=axis)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(got.sum(axis=axis), 1, rtol=1e-12)


def test_E20_invariant_under_multiples_of_one_only(x64: None, rng: np.random.Generator) -> None:
    z, c = rng.standard_normal(5), rng.standard_normal(5)
    same = softmax(jnp.asarray(z))
    np.testing.assert_allclose(softmax(jnp.asarray(z + 3.7)), same, rtol=1e-12)
    assert np.abs(np.asarray(softmax(jnp.asarray(z + c)) - same)).max() > 0.05, "any c in R^K"


def test_masked_sources_get_exactly_zero_and_no_gradient() -> None:
    scores = jnp.array([[1.0, 2.0, np.finfo(np.float32).max], [0.5, -1.0, 3.0]])
    mask = jnp.array([[True, True, False], [True, True, True]])
    pattern, pull = jax.vjp(lambda s: masked_softmax(s, mask), scores)
    assert pattern[0, 2] == 0
    np.testing.assert_allclose(pattern[0, :2], jax.nn.softmax(scores[0, :2]), rtol=1e-6)
    np.testing.assert_allclose(pattern.sum(axis=-1), 1, rtol=1e-6)
    (gradient,) = pull(jnp.array([[1.0, 0.0, 5.0], [1.0, 0.0, 5.0]]))
    assert np.isfinite(np.asarray(gradient)).all()
    assert gradient[0, 2] == 0
    assert gradient[1, 2] != 0


def test_a_row_without_sources_is_zero_with_finite_gradient() -> None:
    mask = jnp.array([[False, False]])
    pattern, pull = jax.vjp(lambda s: masked_softmax(s, mask), jnp.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(pattern, 0)
    np.testing.assert_array_equal(pull(jnp.ones((1, 2)))[0], 0)


def test_masked_softmax_and_its_derivatives_are_those_of_the_allowed_part(
    x64: None, rng: np.random.Generator
) -> None:
    scores = jnp.asarray(700 * rng.standard_normal((2, 3, 4)))
    mask = jnp.array([[True, False, True, True], [True, True, True, True], [False] * 4])
    exponentials, total = masked_exponentials(scores, mask)
    pattern = np.asarray(exponentials / total[..., None])
    np.testing.assert_array_equal(pattern, masked_softmax(scores, mask))
    assert (np.asarray(total)[:, 2] == 1).all()
    z = np.asarray(scores)[:, 0][:, [0, 2, 3]]
    want = np.exp(z - z.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        pattern[:, 0][:, [0, 2, 3]], want / want.sum(axis=1, keepdims=True), rtol=1e-12
    )
    # The shift is not differentiated: that must not show, in any order.
    row, allowed = scores[0, 0] / 700, jnp.array([0, 2, 3])
    hessian = jax.hessian(lambda s: masked_softmax(s[None], mask[:1])[0, 0])(row)
    alone = jax.hessian(lambda s: jax.nn.softmax(s)[0])(row[allowed])
    np.testing.assert_allclose(
        hessian[allowed[:, None], allowed[None, :]], alone, rtol=1e-12, atol=1e-15
    )
    assert (np.asarray(hessian)[1] == 0).all() and (np.asarray(hessian)[:, 1] == 0).all()


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


TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
run = jax.jit(forward, static_argnames="outputs")


@pytest.mark.parametrize("positions", Positions)
def test_pieces_equal_the_whole(x64: None, make_transformer, positions: Positions) -> None:
    model = make_transformer(
        bias=True, mlp=True, norm=Norm.layernorm, smear=True, positions=positions
    )
    whole, _ = run(model, TOKENS)
    cache = empty_cache(model, 8)
    rows = []
    for piece in (TOKENS[:3], TOKENS[3:4], TOKENS[4:5], TOKENS[5:]):
        logits, trace = run(model, piece, cache=cache)
        cache = trace.cache
        rows.append(logits)
    np.testing.assert_allclose(jnp.concatenate(rows), whole, rtol=1e-10, atol=1e-12)
    assert int(cache.length) == 6
    alone, _ = run(model, TOKENS[3:4], cache=empty_cache(model, 8))
    assert np.abs(np.asarray(alone[0] - whole[3])).max() > 1e-3, "the cache matters"
