"""The error of one output: characteristic functions, averages, curvatures, by quadrature."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import integrate

from circuitax.superposition import output_error as ue
from circuitax.superposition.output_error import (
    multiples,
    sinc,
    sum_law,
    uniform_characteristic,
    unit,
)


def test_unit_is_the_complex_exponential_in_every_quadrant(x64, rng):
    angle = np.concatenate([rng.uniform(-1e5, 1e5, 4000), np.arange(-40, 41) * np.pi / 4])
    np.testing.assert_allclose(unit(jnp.asarray(angle)), np.exp(1j * angle), atol=2e-15)


def test_unit_has_the_derivative_of_the_exponential(x64, rng):
    def real(z):
        value = unit(jnp.asarray(z))
        return value.real + 2 * value.imag

    check_grads(real, (rng.normal(size=5),), 2, eps=1e-5)


def test_multiples_are_powers(x64):
    one = np.exp(0.3j)
    np.testing.assert_allclose(multiples(jnp.asarray(0.3), 50), one ** np.arange(1, 51), atol=1e-14)


def test_sinc_through_zero(x64):
    z = np.array([-2.0, -0.00999, 0.0, 1e-8, 0.01001, 3.0])
    np.testing.assert_allclose(sinc(jnp.asarray(z), jnp.sin(z)), np.sinc(z / np.pi), rtol=1e-15)


@pytest.mark.parametrize("step", [0.0, 1e-9, 0.02, -0.7, 3.1])
def test_uniform_characteristic_is_the_mean_exponential(x64, step):
    nodes, weights = np.polynomial.legendre.leggauss(60)
    k = np.arange(1, 21)
    mean = np.exp(1j * np.outer(k, step * 0.5 * (nodes + 1))) @ weights / 2
    np.testing.assert_allclose(uniform_characteristic(jnp.asarray(step), 20), mean, atol=1e-14)


def test_sum_law_is_the_product_over_features(x64, rng):
    step, p, single = rng.normal(size=4), rng.uniform(size=4), rng.normal(size=4)
    phi = np.asarray(jax.vmap(lambda s: uniform_characteristic(s, 9))(jnp.asarray(step)))
    law, sparse = sum_law(*(jnp.asarray(v) for v in (step, p, single)), 9)
    np.testing.assert_allclose(law, np.prod(1 - p[:, None] + p[:, None] * phi, axis=0), atol=1e-14)
    np.testing.assert_allclose(sparse, single @ phi, atol=1e-14)


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
