"""MLPs of every kind against their formulas, and the statements of their sources."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuitax.kernel.forward import forward
from circuitax.kernel.mlp import Activation, activate, apply_mlp, gate, hidden_units
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import MLPWeights


def gelu(z: np.ndarray) -> np.ndarray:
    return z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))


def silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-z))


ORACLE = {
    "relu": lambda z: np.maximum(z, 0),
    "relu_squared": lambda z: np.where(z > 0, z * z, 0),
    "gelu": gelu,
    "gelu_10": lambda z: np.clip(gelu(z), -10, 10),
    "silu": silu,
    "linear": lambda z: z,
}


@pytest.mark.parametrize("name", list(ORACLE))
def test_S0_def_4_activations(x64: None, name: str) -> None:
    z = np.linspace(-12, 12, 49)
    np.testing.assert_allclose(activate(jnp.asarray(z), name), ORACLE[name](z), atol=1e-12)
    np.testing.assert_allclose(z * gate(jnp.asarray(z), name), ORACLE[name](z), atol=1e-12)


@pytest.mark.parametrize("name", list(Activation))
def test_half_precision_has_the_gates_of_single(name: str) -> None:
    z = np.linspace(-60, 60, 401)
    for dtype, rtol in ((jnp.bfloat16, 5e-3), (jnp.float16, 6e-4)):
        half = jnp.asarray(z, dtype)
        for f in (activate, gate):
            got = f(half, name)
            assert got.dtype == dtype
            want = f(half.astype(jnp.float32), name)
            np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=rtol, atol=1e-7)


def test_E26_gelu_is_exact_and_need_not_increase(x64: None) -> None:
    z = jnp.linspace(-3, 3, 61)
    exact = activate(z, Activation.gelu)
    tanh = jax.nn.gelu(z, approximate=True)
    assert np.abs(np.asarray(exact) - gelu(np.asarray(z))).max() < 1e-12
    assert 1e-4 < np.abs(np.asarray(exact - tanh)).max() < 5e-4, "JAX's default is another function"
    for name in (Activation.gelu, Activation.silu):
        values = np.asarray(activate(z, name))
        assert (np.diff(values) < 0).any(), "not monotone, as S0 section 7 would require"
    assert (np.diff(np.asarray(activate(z, Activation.relu))) >= 0).all()


def make(rng: np.random.Generator, gated: bool) -> tuple[MLPWeights, dict[str, np.ndarray]]:
    raw = {
        "W_in": rng.standard_normal((4, 6)),
        "W_out": rng.standard_normal((6, 4)),
        "b_in": rng.standard_normal(6),
        "b_out": rng.standard_normal(4),
    }
    if gated:
        raw["W_gate"] = rng.standard_normal((4, 6))
    return MLPWeights(**{k: jnp.asarray(v) for k, v in raw.items()}), raw


def test_S0_def_5_mlp_in_columns_position_by_position(x64: None, rng: np.random.Generator) -> None:
    weights, raw = make(rng, gated=False)
    x = rng.standard_normal((3, 4))
    got = np.asarray(apply_mlp(weights, jnp.asarray(x), Activation.relu))
    for column, y in zip(x, got, strict=True):
        hidden = np.maximum(raw["W_in"].T @ column + raw["b_in"], 0)
        np.testing.assert_allclose(y, raw["W_out"].T @ hidden + raw["b_out"], rtol=1e-12)


def test_gated_mlp(x64: None, rng: np.random.Generator) -> None:
    weights, raw = make(rng, gated=True)
    x = rng.standard_normal((3, 4))
    want = (silu(x @ raw["W_gate"]) * (x @ raw["W_in"] + raw["b_in"])) @ raw["W_out"]
    got = apply_mlp(weights, jnp.asarray(x), Activation.silu)
    np.testing.assert_allclose(got, want + raw["b_out"], rtol=1e-12)
    plain = apply_mlp(weights._replace(W_gate=None), jnp.asarray(x), Activation.silu)
    assert np.abs(np.asarray(plain - got)).max() > 0.1


def test_S1_linear_mlp_collapses_to_one_matrix(x64: None, rng: np.random.Generator) -> None:
    W_in, W_out = rng.standard_normal((4, 6)), rng.standard_normal((6, 4))
    weights = MLPWeights(jnp.asarray(W_in), jnp.asarray(W_out))
    x = rng.standard_normal((3, 4))
    linear = apply_mlp(weights, jnp.asarray(x), Activation.linear)
    np.testing.assert_allclose(linear, x @ (W_in @ W_out), rtol=1e-12, atol=1e-12)
    bent = apply_mlp(weights, jnp.asarray(x), Activation.gelu)
    assert np.abs(np.asarray(bent) - x @ (W_in @ W_out)).max() > 0.1


def test_S1_section_5_a_hidden_unit_is_a_dot_product(x64: None, rng: np.random.Generator) -> None:
    """``h_ij = ⟨w_j, e_i⟩`` with w_j the j-th column; the nonlinearity then selects."""
    W_up, x = rng.standard_normal((6, 4)), rng.standard_normal((3, 6))
    shown = MLPWeights(jnp.asarray(W_up), jnp.eye(4, 6))  # h itself comes out, in front
    linear = apply_mlp(shown, jnp.asarray(x), Activation.linear)
    chosen = apply_mlp(shown, jnp.asarray(x), Activation.relu)
    for i in range(3):
        for j in range(4):
            aligned = float(np.dot(W_up[:, j], x[i]))
            assert float(linear[i, j]) == pytest.approx(aligned, rel=1e-12)
            assert float(chosen[i, j]) == pytest.approx(max(aligned, 0), rel=1e-12)
    kept = np.asarray(chosen)[:, :4]
    assert (kept == 0).any() and (kept > 0).any()


def test_E36_S2_mlp_is_a_memory_of_keys_and_values(x64: None, rng: np.random.Generator) -> None:
    """``b_2 + Σ_j GELU(⟨key_j, x⟩ + b_j) value_j``: each hidden unit writes one fixed vector.

    S2 calls the rows of W_1 [d_model, d_mlp] the input patterns; of that shape they are columns.
    """
    weights, raw = make(rng, gated=False)
    x = rng.standard_normal(4)
    got = apply_mlp(weights, jnp.asarray(x)[None], Activation.gelu)[0]
    want = raw["b_out"].copy()
    for j in range(6):
        key, value = raw["W_in"][:, j], raw["W_out"][j]
        want += gelu(np.array([key @ x + raw["b_in"][j]]))[0] * value
    np.testing.assert_allclose(got, want, rtol=1e-12)
    with pytest.raises(ValueError):
        raw["W_in"][0] @ x  # a row, as printed: d_mlp numbers against d_model


def test_E30_S2_shape_of_W_1_needs_rows(rng: np.random.Generator) -> None:
    W_1, x = rng.standard_normal((4, 6)), rng.standard_normal(4)
    assert (x @ W_1).shape == (6,)
    with pytest.raises(ValueError):
        W_1 @ x


TOKENS = jnp.array([3, 1, 4, 1, 5, 9])


def make_deeper(rng: np.random.Generator, n_extra: int, biases: bool = True) -> MLPWeights:
    shapes = {"W_in": (4, 6), "W_hidden": (n_extra, 6, 6), "W_out": (6, 4)}
    if biases:
        shapes |= {"b_in": (6,), "b_hidden": (n_extra, 6), "b_out": (4,)}
    return MLPWeights(**{name: jnp.asarray(rng.standard_normal(s)) for name, s in shapes.items()})


def test_a_network_of_depth_2_by_hand() -> None:
    """1 -> (1, -1) -> relu (1, 0) -> (3 - 1, 5 - 6) -> relu (2, 0) -> 2 * 7 + 1."""
    weights = MLPWeights(
        W_in=jnp.array([[1.0, -1.0]]),
        W_hidden=jnp.array([[[3.0, 5.0], [100.0, 100.0]]]),
        b_hidden=jnp.array([[-1.0, -6.0]]),
        W_out=jnp.array([[7.0], [1000.0]]),
        b_out=jnp.array([1.0]),
    )
    assert float(apply_mlp(weights, jnp.ones((1, 1)), Activation.relu)[0, 0]) == 15
    np.testing.assert_array_equal(hidden_units(weights, jnp.ones((1, 1)), "relu").post, [[2, 0]])


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
def test_S0_def_5_further_layers_in_columns_position_by_position(
    x64: None, rng: np.random.Generator, name: str, biases: bool
) -> None:
    weights, x = make_deeper(rng, 2, biases), rng.standard_normal((3, 4))
    raw = jax.tree.map(np.asarray, weights)
    got = np.asarray(apply_mlp(weights, jnp.asarray(x), name))
    for column, y in zip(x, got, strict=True):
        hidden = ORACLE[name](raw.W_in.T @ column + (raw.b_in if biases else 0))
        for i in range(2):
            hidden = raw.W_hidden[i].T @ hidden + (raw.b_hidden[i] if biases else 0)
            hidden = ORACLE[name](hidden)
        want = raw.W_out.T @ hidden + (raw.b_out if biases else 0)
        np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), n_extra=st.integers(1, 4))
def test_identity_layers_of_relus_change_nothing(seed: int, n_extra: int) -> None:
    weights = make_deeper(np.random.default_rng(seed), n_extra)
    through = weights._replace(
        W_hidden=jnp.tile(jnp.eye(6), (n_extra, 1, 1)), b_hidden=jnp.zeros((n_extra, 6))
    )
    shallow = weights._replace(W_hidden=None, b_hidden=None)
    x = jnp.asarray(np.random.default_rng(seed).standard_normal((3, 4)))
    same = apply_mlp(through, x, Activation.relu)
    np.testing.assert_array_equal(same, apply_mlp(shallow, x, Activation.relu))


def oracle(model: Model, normed: bool) -> np.ndarray:
    """Causal learned-position transformer with biases and GELU in NumPy, bare or pre-LN."""
    W = jax.tree.map(np.asarray, model)
    b = W.blocks

    def ln(x: np.ndarray, gain: np.ndarray, offset: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + offset

    x = W.W_E[TOKENS] + W.W_pos
    for i in range(b.mlp.W_in.shape[0]):
        read = ln(x, b.attention_norm.gain[i], b.attention_norm.offset[i]) if normed else x
        a = b.attention
        update = np.zeros_like(x) + a.b_O[i]
        for h in range(a.W_Q.shape[1]):
            q, k, v = (
                read @ m[i, h] + c[i, h]
                for m, c in ((a.W_Q, a.b_Q), (a.W_K, a.b_K), (a.W_V, a.b_V))
            )
            scores = np.where(np.tril(np.ones((6, 6))) > 0, q @ k.T / 2, -np.inf)
            A = np.exp(scores - scores.max(axis=1, keepdims=True))
            update += A / A.sum(axis=1, keepdims=True) @ v @ a.W_O[i, h]
        x = x + update
        read = ln(x, b.mlp_norm.gain[i], b.mlp_norm.offset[i]) if normed else x
        hidden = ORACLE["gelu"](read @ b.mlp.W_in[i] + b.mlp.b_in[i])
        for j in range(b.mlp.W_hidden.shape[1]):
            hidden = ORACLE["gelu"](hidden @ b.mlp.W_hidden[i, j] + b.mlp.b_hidden[i, j])
        x = x + hidden @ b.mlp.W_out[i] + b.mlp.b_out[i]
    final = ln(x, W.final_norm.gain, W.final_norm.offset) if normed else x
    return final @ W.W_U + W.b_U


@pytest.mark.parametrize("normed", [False, True])
def test_both_families_with_mlps_of_depth_3(x64: None, make_transformer, normed: bool) -> None:
    model = make_transformer(
        bias=True,
        mlp=True,
        n_extra=2,
        norm=Norm.layernorm if normed else Norm.none,
        positions=Positions.learned,
    )
    assert model.spec.mlp_depth == 3
    logits, trace = jax.jit(forward, static_argnames="outputs")(model, TOKENS, outputs=True)
    want = oracle(model, normed)
    np.testing.assert_allclose(logits, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())
    writes = trace.head_outputs.sum(axis=1) + trace.mlp_outputs
    writes = writes + model.blocks.attention.b_O[:, None]
    np.testing.assert_allclose(trace.streams[1:] - trace.streams[:-1], writes, atol=1e-11)
