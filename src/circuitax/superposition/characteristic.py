"""Characteristic functions of scaled uniforms on a ladder of equally spaced frequencies."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

# pi/2 as a number with trailing zeros (n * HIGH is exact for n < 2^20) and a correction.
HALF_PI_HIGH = 1.5707963267341256
HALF_PI_LOW = 6.077100506506192e-11


def multiples(angle: Float[Array, "*shape"], n_terms: int) -> Complex[Array, "*shape n_terms"]:
    """``exp(i k angle)`` for k = 1..n_terms."""
    return unit(ladder(angle, n_terms))


def ladder(step: Float[Array, "*shape"], n_terms: int) -> Float[Array, "*shape n_terms"]:
    """``k step`` for k = 1..n_terms."""
    return spread(step, jnp.arange(1, n_terms + 1, dtype=step.dtype))


def spread(
    scale: Float[Array, "*shape"], vector: Float[Array, " n_terms"]
) -> Float[Array, "*shape n_terms"]:
    """``scale * vector`` as an outer product, whose gradient in the scale is a dot.

    The gradient of a broadcast is a reduction, and XLA's CPU compiler pulls everything before a
    reduction into its loop, without vector instructions: that made gradients three times slower.
    """
    return jnp.tensordot(scale, vector, axes=0)


@jax.custom_jvp
def unit(angle: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    """``exp(i angle)``, to an ulp for angles below a million.

    XLA's double-precision sine on CPUs is a scalar call, ten times the price of these polynomials,
    and would be three quarters of the time of an exact loss.
    """
    if angle.dtype == jnp.float32:
        return jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    turns = jnp.round(angle / (HALF_PI_HIGH + HALF_PI_LOW))
    r = (angle - turns * HALF_PI_HIGH) - turns * HALF_PI_LOW
    square = r * r
    sine, cosine = jnp.ones_like(r), jnp.ones_like(r)
    for k in range(8, 0, -1):  # Taylor to r^17 and r^16: 1e-18 at pi/4
        sine = 1 - square / (2 * k * (2 * k + 1)) * sine
        cosine = 1 - square / ((2 * k - 1) * 2 * k) * cosine
    sine = sine * r
    quadrant = turns - 4 * jnp.floor(turns / 4)
    swapped = (quadrant == 1) | (quadrant == 3)
    real, imag = jnp.where(swapped, sine, cosine), jnp.where(swapped, cosine, sine)
    real = jnp.where((quadrant == 1) | (quadrant == 2), -real, real)
    return jax.lax.complex(real, jnp.where(quadrant >= 2, -imag, imag))


@unit.defjvp
def _unit_jvp(
    primals: tuple[Float[Array, "*shape"]], tangents: tuple[Float[Array, "*shape"]]
) -> tuple[Complex[Array, "*shape"], Complex[Array, "*shape"]]:
    value = unit(primals[0])
    return value, jax.lax.complex(-value.imag * tangents[0], value.real * tangents[0])


def sinc(angle: Float[Array, "*shape"], sine: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``sin(z) / z``, given z and its sine; 1 at z = 0."""
    small = jnp.abs(angle) < 1e-2
    series = 1 - angle**2 / 6 * (1 - angle**2 / 20)
    return jnp.where(small, series, sine / jnp.where(small, 1, angle))


def uniform_characteristic(
    step: Float[Array, "*shape"], n_terms: int
) -> Complex[Array, "*shape n_terms"]:
    """``E exp(i k step U)`` for U uniform on [0, 1] and k = 1..n_terms: ``exp(iz/2) sinc(z/2)``."""
    half = multiples(0.5 * step, n_terms)
    return half * sinc(ladder(0.5 * step, n_terms), half.imag)


def sum_law(
    step: Float[Array, " n"],
    density: Float[Array, " n"],
    single: Float[Array, " n"],
    n_terms: int,
) -> tuple[Complex[Array, " n_terms"], Complex[Array, " n_terms"]]:
    """``prod_j (q_j + p_j phi(k step_j))`` and ``sum_j single_j phi(k step_j)``, k = 1..n.

    A scan over features: its transpose carries the product of the later factors backwards, so that
    no factor is ever divided by, and recomputing phi there keeps one array a feature in memory.
    """

    @jax.checkpoint
    def include(
        carry: tuple[Array, Array], feature: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        law, sparse = carry
        angle, p, weight = feature
        phi = uniform_characteristic(angle, n_terms)
        return (law * (1 - p + p * phi), sparse + weight * phi), None

    ones = jnp.full((n_terms,), 1, jnp.result_type(step.dtype, jnp.complex64))
    (law, sparse), _ = jax.lax.scan(include, (ones, jnp.zeros_like(ones)), (step, density, single))
    return law, sparse
