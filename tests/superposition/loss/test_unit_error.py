import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from circuitax.superposition import output_error as ue

GAINS = [0.0, 1e-7, 0.03, 0.8, 1.7]
ERROR_ON, MEAN_ON, MEAN_OFF = (
    jax.jit(f) for f in (ue.error_on, ue.mean_error_on, ue.mean_error_off)
)
CURVATURES = jax.jit(ue.curvatures, static_argnums=3)
DRIVES = [-2.0, -0.9, -0.02, -1e-8, 0.0, 0.3]


def by_quadrature(drive, gain):
    kink = [-drive / gain] if gain and 0 < -drive / gain < 1 else None
    return integrate.quad(
        lambda x: (x - max(gain * x + drive, 0)) ** 2, 0, 1, points=kink, epsabs=1e-13
    )[0]


@pytest.mark.parametrize("gain", GAINS)
def test_error_on_is_its_integral(x64, gain):
    t = jnp.array(DRIVES)
    expected = [by_quadrature(d, gain) for d in DRIVES]
    np.testing.assert_allclose(ue.error_on(t, jnp.full_like(t, gain)), expected, atol=1e-12)


@pytest.mark.parametrize("gain", [0.03, 0.8, 1.7])
def test_slopes_are_derivatives(x64, gain):
    t = np.array([-2.0, -0.5, -0.01, 0.4])
    h = 1e-6
    g = jnp.full_like(t, gain)
    on = (ue.error_on(jnp.asarray(t + h), g) - ue.error_on(jnp.asarray(t - h), g)) / (2 * h)
    np.testing.assert_allclose(ue.slope_on(jnp.asarray(t), g), on, atol=1e-8)
    np.testing.assert_allclose(ue.slope_off(jnp.asarray(t)), 2 * np.maximum(t, 0), atol=1e-15)


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize(
    "ends", [(-2, 1), (0.5, -0.4), (-0.3, -0.1), (0.2, 0.9), (0.1, 0.1), (0.0, 1e-10)]
)
def test_means_are_averages_over_the_interval(x64, gain, ends):
    start, end = (jnp.array(float(v)) for v in ends)
    low, high = sorted(ends)
    t = np.unique(np.clip([low, -gain, 0.0, high], low, high))
    nodes, weights = np.polynomial.legendre.leggauss(4)

    def average(f):
        if len(t) == 1:
            return float(f(jnp.array([t[0]]))[0])
        pieces = [
            (b - a) / 2 * float(weights @ f(jnp.asarray(a + (b - a) * (nodes + 1) / 2)))
            for a, b in itertools.pairwise(t)
        ]
        return sum(pieces) / (high - low)

    on = average(lambda d: ERROR_ON(d, jnp.full_like(d, gain)))
    tolerance = 1e-12 if high - low > 1e-6 else 1e-9
    np.testing.assert_allclose(MEAN_ON(start, end, jnp.array(gain)), on, atol=tolerance)
    np.testing.assert_allclose(MEAN_OFF(start, end), average(ue.error_off), atol=1e-12)


@pytest.mark.parametrize("gain", [1e-6, 0.05, 0.8, 3.0])
@pytest.mark.parametrize("start", [-1.5, -0.4, 0.2])
def test_curvatures_by_parts(x64, gain, start):
    """``int f'' cos = [f' cos] + w int f' sin``, with f' integrated on its smooth pieces."""
    length, n = 2.0, 12
    frequency = np.pi / length * np.arange(1, n + 1)
    t = np.unique(np.clip([start, -gain, 0.0, start + length], start, start + length))
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def expected(slope):
        total = slope(start + length) * np.cos(frequency * length) - slope(start)
        for a, b in itertools.pairwise(t):
            x = a + (b - a) * (nodes + 1) / 2
            sines = np.sin(frequency[:, None] * (x - start))
            total = total + frequency * (b - a) / 2 * (sines @ (weights * slope(x)))
        return total

    def slope_on(x):
        x = jnp.asarray(x)
        return np.asarray(ue.slope_on(x, jnp.full_like(x, gain)))

    off, on = CURVATURES(jnp.array(start), jnp.array(length), jnp.array(gain), n)
    np.testing.assert_allclose(on, expected(slope_on), atol=1e-11)
    np.testing.assert_allclose(off, expected(lambda x: 2 * np.maximum(x, 0)), atol=1e-12)


def test_gradients_are_finite_where_norm_bias_and_coupling_vanish(x64):
    def total(bias, coupling, gain):
        spectrum = ue.curvatures(jnp.array(-0.5), jnp.array(1.0), gain, 4)[1]
        return (
            ue.mean_error_on(bias, bias + coupling, gain)
            + ue.mean_error_off(bias, bias + coupling)
            + jnp.sum(spectrum)
        )

    zero = jnp.array(0.0)
    assert np.isfinite(jax.jit(jax.grad(total, argnums=(0, 1, 2)))(zero, zero, zero)).all()
