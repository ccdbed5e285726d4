"""Characteristic functions of scaled uniforms on a ladder of equally spaced frequencies."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Complex, Float


def multiples(angle: Float[Array, "*shape"], n_terms: int) -> Complex[Array, "*shape n_terms"]:
    """``exp(i k angle)`` for k = 1..n_terms, from about 2 sqrt(n_terms) sines instead of n_terms.

    The ladder is an outer product of a coarse and a fine one; its error is a few ulp at any k.
    """
    fine = max(1, math.isqrt(n_terms))
    coarse = -(-n_terms // fine)
    shape = (1,) * angle.ndim + (-1,)
    rungs = jnp.arange(1, fine + 1, dtype=angle.dtype).reshape(shape) * angle[..., None]
    leaps = (fine * jnp.arange(coarse, dtype=angle.dtype)).reshape(shape) * angle[..., None]
    ladder = _unit(leaps)[..., :, None] * _unit(rungs)[..., None, :]
    return ladder.reshape(*angle.shape, coarse * fine)[..., :n_terms]


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
    ladder = jnp.arange(1, n_terms + 1, dtype=step.dtype).reshape((1,) * step.ndim + (-1,))
    return half * sinc(0.5 * step[..., None] * ladder, half.imag)


def product(factors: Complex[Array, "n *shape"]) -> Complex[Array, "*shape"]:
    """The product over the leading axis, as a tree: its gradient needs no division by a factor."""
    while factors.shape[0] > 1:
        half = factors.shape[0] // 2
        factors = jnp.concatenate(
            [factors[:half] * factors[half : 2 * half], factors[2 * half :]], axis=0
        )
    return factors[0]


def _unit(angle: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    """exp(i angle)."""
    return jnp.cos(angle) + 1j * jnp.sin(angle)
