"""Characteristic functions of sums of scaled uniforms, at equally spaced frequencies."""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Complex, Float, Int

from circuitax.kernel.checks import check_range

# How many frequencies stand before those that are wanted.
Count = int | Int[Array, ""]
# 2 pi as a number with trailing zeros (n times it is exact for n < 2^20) and a correction.
TURN_HIGH = 6.2831853069365025
TURN_LOW = 2.430840202602477e-10
# Taylor coefficients of sin(r)/r and cos(r) in r^2, highest first: 1e-18 at r = pi/4.
SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(8, -1, -1))
COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9, -1, -1))


def multiples(
    angle: Float[Array, "*shape"], n_terms: int, first: Count = 0
) -> Complex[Array, "*shape n_terms"]:
    """``exp(i k angle)`` for the n_terms numbers k that follow ``first``."""
    return unit(ladder(angle, n_terms, first))


def ladder(
    step: Float[Array, "*shape"], n_terms: int, first: Count = 0
) -> Float[Array, "*shape n_terms"]:
    """``k step`` for k = first + 1, ..., first + n_terms."""
    check_range("n_terms", n_terms, "[1, inf)")
    return spread(step, jnp.arange(1, n_terms + 1, dtype=step.dtype) + first)


def spread(
    scale: Float[Array, "*shape"], vector: Float[Array, " n_terms"]
) -> Float[Array, "*shape n_terms"]:
    """The outer product of ``scale`` and ``vector``, written as one for the sake of its gradient.
    """
    return jnp.tensordot(scale, vector, axes=0)


@jax.custom_jvp
def unit(angle: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    """``exp(i angle)``, with an error of at most 2e-15 for angles below a million."""
    if angle.dtype == jnp.float32:
        return jax.lax.complex(jnp.cos(angle), jnp.sin(angle))
    turns = jnp.round(angle / (TURN_HIGH + TURN_LOW))
    r = 0.25 * ((angle - turns * TURN_HIGH) - turns * TURN_LOW)
    square = r * r
    sine, cosine = jnp.full_like(r, SINE[0]), jnp.full_like(r, COSINE[0])
    for coefficient in SINE[1:]:
        sine = sine * square + coefficient
    for coefficient in COSINE[1:]:
        cosine = cosine * square + coefficient
    sine = sine * r
    for _ in range(2):  # the quarter of the angle, doubled twice
        sine, cosine = 2 * sine * cosine, 1 - 2 * sine * sine
    return jax.lax.complex(cosine, sine)


@unit.defjvp
def _unit_jvp(
    primals: tuple[ArrayLike], tangents: tuple[ArrayLike]
) -> tuple[Complex[Array, "*shape"], Complex[Array, "*shape"]]:
    value = unit(jnp.asarray(primals[0]))
    return value, 1j * value * tangents[0]


def sinc(angle: Float[Array, "*shape"], sine: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``sin(z) / z``, given z and its sine; 1 at z = 0."""
    small = jnp.abs(angle) < 1e-2
    series = 1 - angle**2 / 6 * (1 - angle**2 / 20)
    return jnp.where(small, series, sine / jnp.where(small, 1, angle))


def uniform_characteristic(
    step: Float[Array, "*shape"], n_terms: int, first: Count = 0
) -> Complex[Array, "*shape n_terms"]:
    """``E exp(i k step U)`` for U uniform on [0, 1] and k as in `ladder`: ``exp(iz/2) sinc(z/2)``.

    Here ``z = k step``.
    """
    half = multiples(0.5 * step, n_terms, first)
    return half * sinc(ladder(0.5 * step, n_terms, first), half.imag)


def sum_law(
    step: Float[Array, " n"],
    density: Float[Array, " n"],
    single: Float[Array, " n"],
    n_terms: int,
    first: Count = 0,
) -> tuple[Complex[Array, " n_terms"], Complex[Array, " n_terms"]]:
    """``prod_j (1 - p_j + p_j phi(k step_j))`` and ``sum_j single_j phi(k step_j)``, k as `ladder`.
    """
    check_range("density", density, "[0, 1]")

    @jax.checkpoint
    def include(
        carry: tuple[Array, Array], feature: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        law, sparse = carry
        angle, p, weight = feature
        phi = uniform_characteristic(angle, n_terms, first)
        return (law * (1 - p + p * phi), sparse + weight * phi), None

    ones = jnp.full((n_terms,), 1, jnp.result_type(step.dtype, jnp.complex64))
    (law, sparse), _ = jax.lax.scan(include, (ones, jnp.zeros_like(ones)), (step, density, single))
    return law, sparse
