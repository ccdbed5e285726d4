"""S0 Definitions 4 and 5 with E26, S1 section 5, E30's shapes, gated variants."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.activations import Activation, activate
from circuitax.kernel.mlp import apply_mlp
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
    with pytest.raises(ValueError, match="activation='swish' must be one of relu, gelu, silu"):
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


def test_E30_S2_shape_of_W_1_needs_rows(rng: np.random.Generator) -> None:
    W_1, x = rng.standard_normal((4, 6)), rng.standard_normal(4)
    assert (x @ W_1).shape == (6,)
    with pytest.raises(ValueError):
        W_1 @ x
