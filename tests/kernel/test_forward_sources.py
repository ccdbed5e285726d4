"""The sources' printed models, written out in NumPy, against the forward pass."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import HeadStack, MLPWeights

run = jax.jit(forward, static_argnames="outputs")

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
S0 = {"score_scale": 1.0}


def softmax_rows(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def one_layer(
    E: np.ndarray, W_Q: np.ndarray, W_K: np.ndarray, W_V: np.ndarray, **mlp: np.ndarray
) -> Model:
    """S1's layer on given rows E: one head, collapsed W_V, identity output and unembedding."""
    d = E.shape[1]

    def layer(W: np.ndarray) -> jax.Array:
        return jnp.asarray(W)[None]

    heads = HeadStack(*(layer(W)[None] for W in (W_Q, W_K, W_V, np.eye(d))))
    model = MLPWeights(layer(mlp["W_up"]), layer(mlp["W_down"])) if mlp else None
    # As many tokens as dimensions, so that the unembedding can be the identity.
    rows = np.concatenate([E, np.zeros((d - len(E), d))])
    return Model.of(W_E=rows, W_U=np.eye(d), attention=heads, mlp=model, activation=Activation.silu)


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


A_CAT_SAT = jnp.arange(3)


def attention_part(S1: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: S1[name] for name in ("E", "W_Q", "W_K", "W_V")}


def test_S1_section_8_pseudocode(x64: None, S1: dict[str, np.ndarray]) -> None:
    out, _ = run(one_layer(**S1), A_CAT_SAT)
    np.testing.assert_allclose(out, S1_pseudocode(**S1), rtol=1e-12, atol=1e-12)


def test_S1_a_cat_sat_triangle(x64: None, S1: dict[str, np.ndarray]) -> None:
    """Section 4: token by token, with one, two and three visible values."""
    part = attention_part(S1)
    out, trace = run(one_layer(**part), A_CAT_SAT, outputs=True)
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
    _, trace = run(one_layer(**part), A_CAT_SAT, outputs=True)
    v = part["E"] @ part["W_V"]
    outside = np.eye(6) - np.linalg.pinv(v) @ v
    assert np.linalg.matrix_rank(outside) == 3
    np.testing.assert_allclose(np.asarray(trace.head_outputs[0, 0]) @ outside, 0, atol=1e-12)
    assert np.abs(part["E"] @ outside).max() > 0.1


def test_S1_fact_2_the_mixing_matrix_depends_on_the_input(
    x64: None, S1: dict[str, np.ndarray]
) -> None:
    part = attention_part(S1)
    _, one = run(one_layer(**part), A_CAT_SAT)
    _, two = run(one_layer(**(part | {"E": part["E"][::-1]})), A_CAT_SAT)
    assert np.abs(np.asarray(one.patterns - two.patterns)).max() > 0.05


def test_E19_S2_worked_example_through_the_model() -> None:
    """Tokens A, B, C with S2's queries, keys and one-hot values; the head's output at B and C."""
    W_Q, W_K = np.array([[9.0, 9.0], [0, 1], [1, 1]]), np.array([[1.0, 0], [0, 1], [1, 1]])
    model = one_layer(np.eye(3), W_Q, W_K, np.eye(3))
    assert model.spec.scale == 2**-0.5
    _, trace = run(model, jnp.arange(3), outputs=True)
    want = [[1, 0, 0], [0.3302, 0.6698, 0], [0.2483, 0.2483, 0.5035]]
    np.testing.assert_allclose(trace.head_outputs[0, 0], want, atol=5e-5)


def test_S0_def_12_simplified_transformer_in_columns(x64: None, make_transformer) -> None:
    """X + Σ_h W_O^h (W_V^h X) softmax((W_Q^h X)^T (W_K^h X))^T, two layers, no scale, no mask."""
    model = make_transformer(**S0)
    X = np.asarray(model.W_E)[TOKENS].T
    heads = model.blocks.attention
    for layer in range(2):
        update = np.zeros_like(X)
        for h in range(3):
            W_Q, W_K, W_V, W_O = (np.asarray(W[layer, h]).T for W in heads[:4])
            A = softmax_rows((W_Q @ X).T @ (W_K @ X))
            update += W_O @ (W_V @ X) @ A.T
        X = X + update
    logits, trace = run(model.with_options(causal=False), TOKENS)
    np.testing.assert_allclose(trace.streams[-1], X.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(logits, X.T @ np.asarray(model.W_U), rtol=1e-12, atol=1e-11)
    masked, _ = run(model, TOKENS)
    assert np.abs(np.asarray(masked - logits)).max() > 0.1, "E12: causal or not is stated"


def pre_ln_oracle(
    model: Model, parallel: bool, mlp_residual: bool, final_norm: bool = True
) -> np.ndarray:
    """S0 section 2.2 in NumPy, pre-LN, GELU, biases, 1/sqrt(d_k); S2 adds a final norm."""
    gelu = np.vectorize(lambda z: 0.5 * z * (1 + float(jax.lax.erf(z / np.sqrt(2)))))
    W = jax.tree.map(np.asarray, model)

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
    read = ln(x, W.final_norm.gain, W.final_norm.offset) if final_norm else x
    return read @ W.W_U + W.b_U


def post_ln_oracle(model: Model, causal: bool) -> np.ndarray:
    """S0 Definition 6 in NumPy: ``Z = LN(X + Attn(X))``, ``LN(Z + MLP(Z))``; S2's Post-LN."""
    W = jax.tree.map(np.asarray, model)

    def ln(x: np.ndarray, gain: np.ndarray, offset: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + offset

    x, b = W.W_E[TOKENS] + W.W_pos, W.blocks
    mask = np.where(np.triu(np.ones((6, 6)), 1) > 0, -np.inf, 0.0) if causal else 0.0
    for i in range(2):
        a, z = b.attention, x + b.attention.b_O[i]
        for h in range(3):
            q, k = x @ a.W_Q[i, h] + a.b_Q[i, h], x @ a.W_K[i, h] + a.b_K[i, h]
            z = z + softmax_rows(q @ k.T / 2 + mask) @ (x @ a.W_V[i, h] + a.b_V[i, h]) @ a.W_O[i, h]
        z = ln(z, b.attention_norm.gain[i], b.attention_norm.offset[i])
        hidden = np.maximum(z @ b.mlp.W_in[i] + b.mlp.b_in[i], 0)
        x = ln(
            z + hidden @ b.mlp.W_out[i] + b.mlp.b_out[i], b.mlp_norm.gain[i], b.mlp_norm.offset[i]
        )
    return x @ W.W_U + W.b_U


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_S0_def_6_post_ln_as_decoder_and_as_encoder_stack(
    x64: None, make_transformer, causal: bool
) -> None:
    options = {"norm": Norm.layernorm, "positions": Positions.learned, "causal": causal}
    relu = {"activation": Activation.relu, "post_ln": True}
    model = make_transformer(bias=True, mlp=True, **options, **relu)
    model = model.replace(final_norm=None).with_options(final_norm=False)
    want = post_ln_oracle(model, causal)
    np.testing.assert_allclose(run(model, TOKENS)[0], want, rtol=1e-9, atol=1e-11)
    pre_ln = run(model.with_options(post_ln=False), TOKENS)[0]
    assert np.abs(np.asarray(pre_ln) - want).max() > 0.1


@pytest.fixture
def full(make_transformer) -> Model:
    options = {"norm": Norm.layernorm, "positions": Positions.learned}
    return make_transformer(bias=True, mlp=True, **options)


def test_S0_section_2_2_pre_ln_and_E5_residual_around_the_mlp(x64: None, full: Model) -> None:
    logits, _ = run(full, TOKENS)
    want = pre_ln_oracle(full, parallel=False, mlp_residual=True)
    np.testing.assert_allclose(logits, want, rtol=1e-9, atol=1e-11)
    printed = pre_ln_oracle(full, parallel=False, mlp_residual=False)
    assert np.abs(printed - want).max() > 0.1, "S3 section 2 prints MLP(Attn(X))"


def test_E40_with_a_final_norm_as_S2_has_it_and_without_as_S0_prints(
    x64: None, full: Model
) -> None:
    """Logits of S0 grow with the stream that it does not normalise; those of S2 do not."""
    plain = Model(
        replace(full.spec, final_norm=False), full.W_E, full.W_U, full.blocks, full.W_pos, full.b_U
    )
    printed = pre_ln_oracle(full, parallel=False, mlp_residual=True, final_norm=False)
    np.testing.assert_allclose(run(plain, TOKENS)[0], printed, rtol=1e-9, atol=1e-11)
    assert np.abs(printed - np.asarray(run(full, TOKENS)[0])).max() > 0.1


def test_E41_an_embedding_stays_a_term_of_the_sum_and_may_leave_the_stream(x64: None) -> None:
    """Printed: "always preserved; attention only adds to it". What it adds may be its negative."""
    eye = np.eye(4)[None, None]
    heads = HeadStack(eye, eye, eye, -eye)
    rows = np.random.default_rng(0).normal(size=(4, 4))
    model = Model.of(W_E=rows, W_U=np.eye(4), attention=heads)
    for token in range(4):
        logits, trace = run(model, jnp.array([token]), outputs=True)
        np.testing.assert_allclose(trace.streams[0] + trace.head_outputs[0, 0], trace.streams[1])
        assert np.abs(np.asarray(trace.streams[0])).max() > 0.1
        np.testing.assert_allclose(logits, 0, atol=1e-15, err_msg="no token can be told")


def test_E29_sequential_unless_built_parallel(x64: None, full: Model) -> None:
    sequential, _ = run(full, TOKENS)
    parallel, _ = run(full.with_options(parallel=True), TOKENS)
    want = pre_ln_oracle(full, parallel=True, mlp_residual=True)
    np.testing.assert_allclose(parallel, want, rtol=1e-9, atol=1e-11)
    assert np.abs(np.asarray(parallel - sequential)).max() > 0.1


def test_S3_section_2_attention_layer(x64: None, rng: np.random.Generator) -> None:
    """X + W_O W_V X A^T with A over positions; S3 prints d_k x d_k scores (E4's first half)."""
    X, W_Q, W_K, W_V = (rng.standard_normal(s) for s in ((4, 5), (2, 4), (2, 4), (2, 4)))
    W_O = rng.standard_normal((4, 2))
    heads = HeadStack(*(jnp.asarray(W.T)[None, None] for W in (W_Q, W_K, W_V, W_O)))
    W_U = np.eye(4, 5)  # a fifth logit of 0, since there are five tokens
    model = Model.of(W_E=X.T, W_U=W_U, attention=heads, causal=False)
    got = run(model, jnp.arange(5))[0][:, :4]
    A = softmax_rows((W_Q @ X).T @ (W_K @ X) / np.sqrt(2))
    np.testing.assert_allclose(got.T, X + W_O @ (W_V @ X) @ A.T, rtol=1e-12, atol=1e-12)
    printed = softmax_rows((W_Q @ X) @ (W_K @ X).T / np.sqrt(2))
    assert printed.shape == (2, 2), "d_k x d_k: no pattern over positions"
    assert np.abs(X + W_O @ (printed @ (W_V @ X)) - np.asarray(got).T).max() > 0.1


def test_S0_def_2_embedding_rows(x64: None, make_transformer) -> None:
    model = make_transformer(n_layers=1, **S0)
    _, trace = run(model, TOKENS)
    one_hot = np.eye(11)[np.asarray(TOKENS)]
    np.testing.assert_allclose(trace.streams[0], one_hot @ np.asarray(model.W_E), rtol=1e-12)


def test_S0_prop_22_one_layer_as_direct_path_and_head_paths(x64: None, make_transformer) -> None:
    """T(x) = (I ⊗ W_U W_E) x + Σ_h (A^h ⊗ W_U W_O^h W_V^h W_E) x, on column one-hots."""
    model = make_transformer(n_layers=1, **S0)
    logits, trace = run(model, TOKENS)
    x = np.eye(11)[np.asarray(TOKENS)].T
    W_E, W_U = np.asarray(model.W_E).T, np.asarray(model.W_U).T
    want = W_U @ W_E @ x
    for h in range(3):
        W_V, W_O = (np.asarray(W[0, h]).T for W in model.blocks.attention[2:4])
        circuit = np.kron(np.asarray(trace.patterns[0, h]), W_U @ W_O @ W_V @ W_E)
        want = want + (circuit @ x.T.ravel()).reshape(6, 11).T
    np.testing.assert_allclose(np.asarray(logits).T, want, rtol=1e-10, atol=1e-11)


def test_E12_the_sum_over_earlier_sources_is_the_causal_head_only(
    x64: None, make_transformer
) -> None:
    """S0 Theorem 25 sums over j <= i, which its Remark 11 (mask omitted) does not give."""
    model = make_transformer(n_layers=1, **S0)
    read = np.asarray(model.W_E)[TOKENS]
    V = np.einsum("td,hdv,hve->hte", read, *(W[0] for W in model.blocks.attention[2:4]))
    for causal in (True, False):
        _, trace = run(model.with_options(causal=causal), TOKENS, outputs=True)
        lower = np.tril(np.asarray(trace.patterns[0]))
        gap = np.abs(np.asarray(trace.head_outputs[0]) - lower @ V).max()
        assert (gap < 1e-12) if causal else (gap > 0.1)


def test_E32_prediction_is_the_largest_dot_product_not_the_best_aligned() -> None:
    """S1 section 7: a long column at 60 degrees beats a short one at 0."""
    heads = HeadStack(*(jnp.zeros((0, 1, 2, 2)) for _ in range(4)))
    W_U = jnp.array([[1.0, 1.5], [0.0, 1.5 * 3**0.5]])
    model = Model.of(W_E=[[1.0, 0.0], [0.0, 1.0]], W_U=W_U, attention=heads, score_scale=1.0)
    logits, _ = run(model, jnp.array([0]))
    lengths = np.linalg.norm(np.asarray(W_U), axis=0)
    assert int(logits[0].argmax()) == 1
    assert int((np.asarray(logits[0]) / lengths).argmax()) == 0


def test_trace_adds_up(x64: None, full: Model) -> None:
    _, trace = run(full, TOKENS, outputs=True)
    writes = trace.head_outputs.sum(axis=1) + trace.mlp_outputs
    writes = writes + full.blocks.attention.b_O[:, None]
    np.testing.assert_allclose(trace.streams[1:] - trace.streams[:-1], writes, atol=1e-12)
    for i, stream in enumerate(np.asarray(trace.streams)[:2]):
        np.testing.assert_allclose(
            trace.scales.attention[i], np.sqrt(stream.var(axis=1) + 1e-5), rtol=1e-12
        )
    last = np.asarray(trace.streams[-1])
    np.testing.assert_allclose(trace.scales.final, np.sqrt(last.var(axis=1) + 1e-5), rtol=1e-12)
