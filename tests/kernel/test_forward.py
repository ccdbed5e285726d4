"""The forward pass against the sources, each by an independent NumPy oracle."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.activations import Activation
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import Blocks, HeadStack, MLPWeights, TransformerWeights

run = jax.jit(forward, static_argnames=("spec", "outputs"))

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
S0_SPEC = ForwardSpec(score_scale=1.0)


def softmax_rows(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def one_layer(
    E: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray, **mlp: np.ndarray
) -> TransformerWeights:
    """S1's layer on given rows E: one head, collapsed W_V, identity output and unembedding."""
    d = E.shape[1]

    def layer(W: np.ndarray) -> jax.Array:
        return jnp.asarray(W)[None]

    heads = HeadStack(*(layer(W)[None] for W in (W_Q, W_K, W_V, np.eye(d))))
    weights = MLPWeights(layer(mlp["W_up"]), layer(mlp["W_down"])) if mlp else None
    return TransformerWeights(jnp.asarray(E), jnp.eye(d), Blocks(heads, mlp=weights))


def S1_pseudocode(
    E: np.ndarray,
    W_Q: np.ndarray,
    W_K: np.ndarray,
    W_V: np.ndarray,
    W_up: np.ndarray,
    W_down: np.ndarray,
) -> np.ndarray:
    """S1 section 8, line by line."""
    Q, K, V = E @ W_Q, E @ W_K, E @ W_V
    S = Q @ K.T
    S = S / np.sqrt(W_Q.shape[1])
    S = S + np.where(np.triu(np.ones_like(S), 1) > 0, -np.inf, 0.0)
    A = softmax_rows(S)
    O = A @ V
    E_prime = E + O
    H = E_prime @ W_up
    H = H / (1 + np.exp(-H))
    Delta = H @ W_down
    return E_prime + Delta


@pytest.fixture
def S1(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Three tokens in six dimensions, so that the span of the values is a proper subspace."""
    shapes = {
        "E": (3, 6),
        "W_Q": (6, 2),
        "W_K": (6, 2),
        "W_V": (6, 6),
        "W_up": (6, 8),
        "W_down": (8, 6),
    }
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


SCALED = ForwardSpec(score_scale=2**-0.5, activation=Activation.silu)
A_CAT_SAT = jnp.arange(3)


def attention_part(S1: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: S1[name] for name in ("E", "W_Q", "W_K", "W_V")}


def test_S1_section_8_pseudocode(x64: None, S1: dict[str, np.ndarray]) -> None:
    out, _ = run(one_layer(**S1), A_CAT_SAT, SCALED)
    np.testing.assert_allclose(out, S1_pseudocode(**S1), rtol=1e-12, atol=1e-12)


def test_S1_a_cat_sat_triangle(x64: None, S1: dict[str, np.ndarray]) -> None:
    """Section 4: token by token, with one, two and three visible values."""
    part = attention_part(S1)
    out, trace = run(one_layer(**part), A_CAT_SAT, SCALED, outputs=True)
    q, k, v = (part["E"] @ part[name] for name in ("W_Q", "W_K", "W_V"))
    for i in range(3):
        scores = np.array([q[i] @ k[j] / np.sqrt(2) for j in range(i + 1)])
        alpha = np.exp(scores) / np.exp(scores).sum()
        delta = sum(alpha[j] * v[j] for j in range(i + 1))
        np.testing.assert_allclose(trace.head_outputs[0, 0, i], delta, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(out[i], part["E"][i] + delta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(trace.head_outputs[0, 0, 0], v[0], rtol=1e-12)


def test_S1_fact_1_updates_lie_in_the_span_of_values(x64: None, S1: dict[str, np.ndarray]) -> None:
    part = attention_part(S1)
    _, trace = run(one_layer(**part), A_CAT_SAT, SCALED, outputs=True)
    v = part["E"] @ part["W_V"]
    outside = np.eye(6) - np.linalg.pinv(v) @ v
    assert np.linalg.matrix_rank(outside) == 3
    np.testing.assert_allclose(np.asarray(trace.head_outputs[0, 0]) @ outside, 0, atol=1e-12)
    assert np.abs(part["E"] @ outside).max() > 0.1


def test_S1_fact_2_the_mixing_matrix_depends_on_the_input(
    x64: None, S1: dict[str, np.ndarray]
) -> None:
    part = attention_part(S1)
    _, one = run(one_layer(**part), A_CAT_SAT, SCALED)
    _, two = run(one_layer(**(part | {"E": part["E"][::-1]})), A_CAT_SAT, SCALED)
    assert np.abs(np.asarray(one.patterns - two.patterns)).max() > 0.05


def test_E19_S2_worked_example_through_the_model() -> None:
    """Tokens A, B, C with S2's queries, keys and one-hot values; the head's output at B and C."""
    W_Q, W_K = np.array([[9.0, 9.0], [0, 1], [1, 1]]), np.array([[1.0, 0], [0, 1], [1, 1]])
    weights = one_layer(np.eye(3), W_Q, W_K, np.eye(3))
    weights = jax.tree.map(lambda a: a.astype(jnp.float32), weights)
    _, trace = run(weights, jnp.arange(3), ForwardSpec(2**-0.5), outputs=True)
    want = [[1, 0, 0], [0.3302, 0.6698, 0], [0.2483, 0.2483, 0.5035]]
    np.testing.assert_allclose(trace.head_outputs[0, 0], want, atol=5e-5)


def test_S0_def_12_simplified_transformer_in_columns(x64: None, make_transformer) -> None:
    """X + Σ_h W_O^h (W_V^h X) softmax((W_Q^h X)^T (W_K^h X))^T, two layers, no scale, no mask."""
    weights = make_transformer()
    X = np.asarray(weights.W_E)[TOKENS].T
    heads = weights.blocks.attention
    for layer in range(2):
        update = np.zeros_like(X)
        for h in range(3):
            W_Q, W_K, W_V, W_O = (np.asarray(W[layer, h]).T for W in heads[:4])
            A = softmax_rows((W_Q @ X).T @ (W_K @ X))
            update += W_O @ (W_V @ X) @ A.T
        X = X + update
    logits, trace = run(weights, TOKENS, ForwardSpec(1.0, causal=False))
    np.testing.assert_allclose(trace.streams[-1], X.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(logits, X.T @ np.asarray(weights.W_U), rtol=1e-12, atol=1e-11)
    masked, _ = run(weights, TOKENS, S0_SPEC)
    assert np.abs(np.asarray(masked - logits)).max() > 0.1, "E12: causal or not is stated"


def pre_ln_oracle(weights: TransformerWeights, parallel: bool, mlp_residual: bool) -> np.ndarray:
    """S0 section 2.2 in NumPy, pre-LN with a final norm (S2), GELU, biases, 1/sqrt(d_k)."""
    gelu = np.vectorize(lambda z: 0.5 * z * (1 + float(jax.lax.erf(z / np.sqrt(2)))))
    W = jax.tree.map(np.asarray, weights)

    def ln(x: np.ndarray, gain: np.ndarray, offset: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + offset

    x = W.W_E[TOKENS] + W.W_pos
    mask = np.where(np.triu(np.ones((6, 6)), 1) > 0, -np.inf, 0.0)
    b = W.blocks
    for i in range(2):
        read = ln(x, b.attention_norm.gain[i], b.attention_norm.offset[i])
        update = np.zeros_like(x)
        a = b.attention
        for h in range(3):
            q = read @ a.W_Q[i, h] + a.b_Q[i, h]
            k = read @ a.W_K[i, h] + a.b_K[i, h]
            v = read @ a.W_V[i, h] + a.b_V[i, h]
            update += softmax_rows(q @ k.T / 2 + mask) @ v @ a.W_O[i, h]
        update += a.b_O[i]
        source = ln(x if parallel else x + update, b.mlp_norm.gain[i], b.mlp_norm.offset[i])
        mlp = gelu(source @ b.mlp.W_in[i] + b.mlp.b_in[i]) @ b.mlp.W_out[i] + b.mlp.b_out[i]
        x = x + update + mlp if mlp_residual else mlp
    return ln(x, W.final_norm.gain, W.final_norm.offset) @ W.W_U + W.b_U


PRE_LN = ForwardSpec(
    score_scale=0.5, positions=Positions.learned, norm=Norm.layernorm, final_norm=True
)


@pytest.fixture
def full(make_transformer) -> TransformerWeights:
    return make_transformer(bias=True, mlp=True, norm=True, table=True)


def test_S0_section_2_2_pre_ln_and_E5_residual_around_the_mlp(
    x64: None, full: TransformerWeights
) -> None:
    logits, _ = run(full, TOKENS, PRE_LN)
    want = pre_ln_oracle(full, parallel=False, mlp_residual=True)
    np.testing.assert_allclose(logits, want, rtol=1e-9, atol=1e-11)
    printed = pre_ln_oracle(full, parallel=False, mlp_residual=False)
    assert np.abs(printed - want).max() > 0.1, "S3 section 2 prints MLP(Attn(X))"


def test_E29_sequential_unless_built_parallel(x64: None, full: TransformerWeights) -> None:
    sequential, _ = run(full, TOKENS, PRE_LN)
    parallel, _ = run(full, TOKENS, dataclasses.replace(PRE_LN, parallel=True))
    want = pre_ln_oracle(full, parallel=True, mlp_residual=True)
    np.testing.assert_allclose(parallel, want, rtol=1e-9, atol=1e-11)
    assert np.abs(np.asarray(parallel - sequential)).max() > 0.1


def test_S3_section_2_attention_layer(x64: None, rng: np.random.Generator) -> None:
    """X + W_O W_V X A^T with A over positions; S3 prints d_k x d_k scores (E4's first half)."""
    X, W_Q, W_K, W_V = (rng.standard_normal(s) for s in ((4, 5), (2, 4), (2, 4), (2, 4)))
    W_O = rng.standard_normal((4, 2))
    heads = HeadStack(*(jnp.asarray(W.T)[None, None] for W in (W_Q, W_K, W_V, W_O)))
    weights = TransformerWeights(jnp.asarray(X.T), jnp.eye(4), Blocks(heads))
    got, _ = run(weights, jnp.arange(5), ForwardSpec(2**-0.5, causal=False))
    A = softmax_rows((W_Q @ X).T @ (W_K @ X) / np.sqrt(2))
    np.testing.assert_allclose(got.T, X + W_O @ (W_V @ X) @ A.T, rtol=1e-12, atol=1e-12)
    printed = softmax_rows((W_Q @ X) @ (W_K @ X).T / np.sqrt(2))
    assert printed.shape == (2, 2), "d_k x d_k: no pattern over positions"
    assert np.abs(X + W_O @ (printed @ (W_V @ X)) - np.asarray(got).T).max() > 0.1


def test_zero_layers_are_W_E_W_U(x64: None, make_transformer) -> None:
    weights = make_transformer(n_layers=0)
    logits, trace = run(weights, TOKENS, S0_SPEC)
    np.testing.assert_allclose(logits, np.asarray(weights.W_E @ weights.W_U)[TOKENS], rtol=1e-12)
    assert trace.streams.shape == (1, 6, 8)
    assert trace.patterns.shape == (0, 3, 6, 6)


def test_E32_prediction_is_the_largest_dot_product_not_the_best_aligned() -> None:
    """S1 section 7: a long column at 60 degrees beats a short one at 0."""
    heads = HeadStack(*(jnp.zeros((0, 1, 2, 2)) for _ in range(4)))
    W_U = jnp.array([[1.0, 1.5], [0.0, 1.5 * 3**0.5]])
    weights = TransformerWeights(jnp.array([[1.0, 0.0]]), W_U, Blocks(heads))
    logits, _ = run(weights, jnp.array([0]), S0_SPEC)
    lengths = np.linalg.norm(np.asarray(W_U), axis=0)
    assert int(logits[0].argmax()) == 1
    assert int((np.asarray(logits[0]) / lengths).argmax()) == 0


def test_multi_head_is_the_sum_of_heads_run_alone(x64: None, make_transformer) -> None:
    weights = make_transformer(n_layers=1)
    _, together = run(weights, TOKENS, S0_SPEC)
    updates = []
    for h in range(3):
        heads = HeadStack(*(W[:, h : h + 1] for W in weights.blocks.attention[:4]))
        alone = weights._replace(blocks=Blocks(heads))
        _, trace = run(alone, TOKENS, S0_SPEC)
        updates.append(trace.streams[1] - trace.streams[0])
    want = together.streams[1] - together.streams[0]
    np.testing.assert_allclose(sum(updates), want, rtol=1e-12, atol=1e-12)


SMALL = {"n_layers": 2, "n_heads": 2, "d_model": 6, "d_head": 4, "d_value": 3, "n_ctx": 4}
FOUR = jnp.array([3, 1, 4, 5])


@pytest.mark.parametrize("causal", [True, False])
def test_S0_rmk_11_causality_by_gradients(x64: None, make_transformer, causal: bool) -> None:
    weights = make_transformer(**SMALL, mlp=True, smear=True, table=True)
    spec = ForwardSpec(0.5, causal, Positions.shortformer, Norm.rmsnorm, final_norm=True)

    def logits(first: jax.Array) -> jax.Array:
        add = jnp.concatenate([first[None], jnp.zeros((2, 4, 6))])
        return run(weights, FOUR, spec, Interventions(stream_add=add))[0].sum(axis=1)

    influence = np.abs(np.asarray(jax.jacobian(logits)(jnp.zeros((4, 6))))).sum(axis=2)
    future = influence[np.triu_indices(4, 1)]
    assert (influence[np.tril_indices(4)] > 1e-9).all()
    assert (future == 0).all() if causal else (future > 1e-6).all()


def test_E30_equivariant_without_mask_and_positions_only(x64: None, make_transformer) -> None:
    weights = make_transformer(**SMALL, mlp=True, table=True)
    order = jnp.array([2, 0, 3, 1])
    bare = ForwardSpec(0.5, causal=False)

    def gap(spec: ForwardSpec) -> float:
        permuted_after = run(weights, FOUR, spec)[0][order]
        return float(jnp.abs(run(weights, FOUR[order], spec)[0] - permuted_after).max())

    assert gap(bare) < 1e-12
    invariant = run(weights, FOUR[order], bare)[0] - run(weights, FOUR, bare)[0]
    assert np.abs(np.asarray(invariant)).max() > 0.1, "S2 prints permutation-invariant"
    assert gap(dataclasses.replace(bare, causal=True)) > 0.01
    assert gap(dataclasses.replace(bare, positions=Positions.learned)) > 0.01


def test_E30_last_position_of_one_causal_layer_ignores_the_order_before_it(
    x64: None, make_transformer
) -> None:
    shuffled = jnp.array([4, 3, 1, 5])

    def last(n_layers: int) -> tuple[jax.Array, jax.Array]:
        weights = make_transformer(**(SMALL | {"n_layers": n_layers}))
        return tuple(run(weights, t, S0_SPEC)[0][-1] for t in (FOUR, shuffled))

    np.testing.assert_allclose(*last(1), rtol=1e-12, atol=1e-12)
    two = last(2)
    assert np.abs(np.asarray(two[0] - two[1])).max() > 0.01, "two layers see the order"


def test_rotary_depends_on_offsets_only(x64: None, make_transformer) -> None:
    """Text may be moved to the right: its patterns among its own positions stay in proportion."""
    weights = make_transformer(**(SMALL | {"n_layers": 1}))
    spec = ForwardSpec(0.5, positions=Positions.rotary)
    text = jnp.array([3, 1, 4])
    near = run(weights, jnp.concatenate([jnp.array([0]), text]), spec)[1].patterns[0]
    far = run(weights, jnp.concatenate([jnp.array([0, 2, 7]), text]), spec)[1].patterns[0]

    def ratios(pattern: jax.Array) -> jax.Array:
        block = pattern[:, -3:, -3:]
        return block[:, 2] / block[:, 2, :1]

    np.testing.assert_allclose(ratios(near), ratios(far), rtol=1e-10)
    unturned = run(weights, jnp.array([0, 3, 1, 4]), S0_SPEC)[1].patterns[0]
    assert np.abs(np.asarray(ratios(unturned) - ratios(near))).max() > 1e-3


@pytest.mark.parametrize("positions", [Positions.shortformer, Positions.shortformer_sinusoidal])
def test_shortformer_positions_reach_patterns_but_never_the_stream(
    x64: None, make_transformer, positions: Positions
) -> None:
    weights = make_transformer(**SMALL, table=True)
    spec = ForwardSpec(0.5, positions=positions)
    _, trace = run(weights, FOUR, spec)
    _, bare = run(weights, FOUR, ForwardSpec(0.5))
    np.testing.assert_array_equal(trace.streams[0], np.asarray(weights.W_E)[FOUR])
    assert np.abs(np.asarray(trace.patterns - bare.patterns)).max() > 0.01
    frozen = Interventions(patterns=trace.patterns)
    _, replayed = run(weights, FOUR, ForwardSpec(0.5), frozen)
    np.testing.assert_allclose(replayed.streams, trace.streams, rtol=1e-12)


def test_sinusoidal_positions_are_added_to_the_stream(x64: None, make_transformer) -> None:
    weights = make_transformer(**SMALL)
    _, trace = run(weights, FOUR, ForwardSpec(0.5, positions=Positions.sinusoidal))
    added = np.asarray(trace.streams[0]) - np.asarray(weights.W_E)[FOUR]
    np.testing.assert_allclose(added[0], [0, 1, 0, 1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(added[3, :2], [np.sin(3), np.cos(3)], atol=1e-12)


def test_trace_adds_up(x64: None, full: TransformerWeights) -> None:
    _, trace = run(full, TOKENS, PRE_LN, outputs=True)
    writes = trace.head_outputs.sum(axis=1) + trace.mlp_outputs
    writes = writes + full.blocks.attention.b_O[:, None]
    np.testing.assert_allclose(trace.streams[1:] - trace.streams[:-1], writes, atol=1e-12)
    for i, stream in enumerate(np.asarray(trace.streams)[:2]):
        np.testing.assert_allclose(
            trace.scales.attention[i], np.sqrt(stream.var(axis=1) + 1e-5), rtol=1e-12
        )
    last = np.asarray(trace.streams[-1])
    np.testing.assert_allclose(trace.scales.final, np.sqrt(last.var(axis=1) + 1e-5), rtol=1e-12)


def test_one_trace_for_batches_and_members(make_transformer) -> None:
    one = make_transformer(**SMALL)
    members = jax.tree.map(lambda a: jnp.stack([a, 2 * a, -a]), one)
    batch = jnp.stack([FOUR, FOUR[::-1]])

    @chex.assert_max_traces(n=1)
    def logits(weights: TransformerWeights, tokens: jax.Array) -> jax.Array:
        return forward(weights, tokens, S0_SPEC)[0]

    together = jax.jit(jax.vmap(jax.vmap(logits, (None, 0)), (0, None)))(members, batch)
    alone, _ = run(jax.tree.map(lambda a: a[1], members), batch[1], S0_SPEC)
    np.testing.assert_allclose(together[1, 1], alone, rtol=1e-4, atol=1e-5)


def test_scanned_layers_equal_written_out_ones(x64: None, make_transformer) -> None:
    """Six layers pass the unroll limit; the stream of layer 4 is that of a four-layer model."""
    weights = make_transformer(**(SMALL | {"n_layers": 6}))
    _, deep = run(weights, FOUR, S0_SPEC)
    shallow = weights._replace(blocks=jax.tree.map(lambda a: a[:4], weights.blocks))
    _, four = run(shallow, FOUR, S0_SPEC)
    np.testing.assert_allclose(deep.streams[:5], four.streams, rtol=1e-10)


def test_missing_or_short_position_tables_are_refused(make_transformer) -> None:
    spec = ForwardSpec(0.5, positions=Positions.learned)
    with pytest.raises(ValueError, match=r"positions=learned needs weights\.W_pos"):
        run(make_transformer(**SMALL), FOUR, spec)
    weights = make_transformer(**SMALL, table=True)
    with pytest.raises(ValueError, match=r"n_ctx=6 positions, must have at most the 4"):
        run(weights, TOKENS, spec)


@pytest.mark.parametrize(
    ("field", "value"),
    [("score_scale", float("inf")), ("norm_eps", 0.0), ("rotary_base", -1.0)],
)
def test_spec_refuses_impossible_numbers(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}={value} must be"):
        ForwardSpec(**({"score_scale": 1.0} | {field: value}))
