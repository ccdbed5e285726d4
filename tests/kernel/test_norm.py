"""Norms against their formulas, and with a frozen scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.norm import Norm, apply_norm, norm_scale
from circuitax.kernel.weights import NormWeights

EPS = 1e-5


def test_S0_def_3_layer_norm_with_E27_population_variance(
    x64: None, rng: np.random.Generator
) -> None:
    x, gain, offset = rng.standard_normal((4, 6)), rng.standard_normal(6), rng.standard_normal(6)
    weights = NormWeights(jnp.asarray(gain), jnp.asarray(offset))
    y, scale = apply_norm(jnp.asarray(x), Norm.layernorm, EPS, weights)

    def by_hand(ddof: int, inside: float, outside: float) -> np.ndarray:
        out = []
        for row in x:
            sigma = np.sqrt(np.var(row, ddof=ddof) + inside) + outside
            out.append((row - row.mean()) / sigma * gain + offset)
        return np.array(out)

    np.testing.assert_allclose(y, by_hand(0, EPS, 0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scale, np.sqrt(x.var(axis=1) + EPS), rtol=1e-12)
    assert np.abs(by_hand(1, EPS, 0) - np.asarray(y)).max() > 1e-3, "sample variance"
    assert np.abs(by_hand(0, 0, EPS) - np.asarray(y)).max() > 1e-7, "eps outside the root"


def test_E27_constant_vector_has_finite_value_and_gradient() -> None:
    def total(x: jax.Array, eps: float) -> jax.Array:
        return (apply_norm(x, Norm.layernorm_pre, eps)[0] ** 3).sum()

    x = jnp.full((1, 4), 2.0)
    assert total(x, EPS) == 0
    assert np.isfinite(np.asarray(jax.grad(total)(x, EPS))).all()
    assert np.isnan(np.asarray(total(x, 0.0))), "printed form, σ = 0"


def test_layernorm_pre_is_layernorm_without_weights(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal((3, 5)), jnp.float32)
    ones = NormWeights(jnp.ones(5), jnp.zeros(5))
    y, _ = apply_norm(x, Norm.layernorm_pre, EPS)
    np.testing.assert_allclose(y, apply_norm(x, Norm.layernorm, EPS, ones)[0], rtol=1e-6)


def test_rmsnorm_does_not_centre(x64: None, rng: np.random.Generator) -> None:
    x, gain = 3 + rng.standard_normal((4, 6)), rng.standard_normal(6)
    y, _ = apply_norm(jnp.asarray(x), Norm.rmsnorm, EPS, NormWeights(jnp.asarray(gain)))
    want = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPS) * gain
    np.testing.assert_allclose(y, want, rtol=1e-12)
    assert np.abs(np.asarray(y).mean()) > 0.1


@pytest.mark.parametrize("norm", [Norm.layernorm_pre, Norm.rmsnorm])
def test_S2_layer_norm_couples_all_dimensions(
    x64: None, rng: np.random.Generator, norm: Norm
) -> None:
    """Every output moves with every input, differently at every point: no linear map does that."""
    x, y = (jnp.asarray(rng.standard_normal((1, 5))) for _ in range(2))

    def slopes(x: jax.Array, scale: jax.Array | None = None) -> np.ndarray:
        jacobian = jax.jacobian(lambda x: apply_norm(x, norm, EPS, scale=scale)[0])(x)
        return np.asarray(jacobian)[0, :, 0]

    assert (np.abs(slopes(x)[~np.eye(5, dtype=bool)]) > 1e-3).all()
    assert np.abs(slopes(x) - slopes(y)).max() > 0.05
    # With the scale frozen it is one linear map: centring, if the norm centres, over the scale.
    scale = norm_scale(x, norm, EPS)
    linear = (np.eye(5) - (1 / 5 if norm.centres else 0)) / float(scale[0])
    np.testing.assert_allclose(slopes(x, scale), linear, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes(y, scale), linear, rtol=1e-12, atol=1e-12)


def test_no_norm_is_the_identity_with_scale_one(rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.standard_normal((4, 6)), jnp.float32)
    y, scale = apply_norm(x, Norm.none, EPS)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(scale, np.ones(4))


@pytest.mark.parametrize("norm", [Norm.layernorm, Norm.rmsnorm])
def test_a_frozen_scale_makes_the_norm_affine(
    x64: None, rng: np.random.Generator, norm: Norm
) -> None:
    x, y = (jnp.asarray(rng.standard_normal((3, 6))) for _ in range(2))
    weights = NormWeights(jnp.asarray(rng.standard_normal(6)))
    scale = norm_scale(x, norm, EPS)
    sums = [apply_norm(v, norm, EPS, weights, scale)[0] for v in (x, y, x + y)]
    np.testing.assert_allclose(sums[0] + sums[1], sums[2], rtol=1e-12, atol=1e-12)
    live = [apply_norm(v, norm, EPS, weights)[0] for v in (x, y, x + y)]
    assert np.abs(np.asarray(live[0] + live[1] - live[2])).max() > 0.1


@pytest.mark.parametrize("norm", [Norm.layernorm, Norm.rmsnorm])
@pytest.mark.parametrize(("dtype", "rtol"), [("bfloat16", 8e-3), ("float16", 1e-3)])
def test_half_precision_squares_in_single(
    norm: Norm, dtype: str, rtol: float, rng: np.random.Generator
) -> None:
    """Squares of entries above 256 are not finite in float16."""
    x = jnp.asarray(900 * rng.standard_normal((3, 64)), dtype)
    gain = jnp.asarray(rng.standard_normal(64), dtype)
    found = apply_norm(x, norm, EPS, NormWeights(gain))
    wide = (x.astype(jnp.float32), norm, EPS, NormWeights(gain.astype(jnp.float32)))
    for got, want in zip(found, apply_norm(*wide), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=rtol, atol=1e-6)
