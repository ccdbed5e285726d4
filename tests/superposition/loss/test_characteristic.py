import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

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


def test_unit_in_single_precision(rng):
    angle = rng.uniform(-50, 50, 100).astype(np.float32)
    np.testing.assert_allclose(unit(jnp.asarray(angle)), np.exp(1j * angle), atol=1e-6)


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
