"""S0 Definitions 4 and 5 with E26, S1 section 5, E30's shapes, gated variants."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.mlp import Activation, activate, apply_mlp
from circuitax.kernel.weights import MLPWeights


def gelu(z: np.ndarray) -> np.ndarray:
    return z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))


def silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-z))


ORACLE = {
    "relu": lambda z: np.maximum(z, 0),
    "gelu": gelu,
    "silu": silu,
    "linear": lambda z: z,
}


@pytest.mark.parametrize("name", list(ORACLE))
def test_S0_def_4_activations(x64: None, name: str) -> None:
    z = np.linspace(-4, 4, 17)
    np.testing.assert_allclose(activate(jnp.asarray(z), name), ORACLE[name](z), atol=1e-12)


def test_activation_names_are_checked() -> None:
    with pytest.raises(
        ValueError, match="activation='swish' must be one of relu, gelu, gelu_tanh, silu"
    ):
        activate(jnp.ones(1), "swish")


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
