"""The exact expected error of one output of a tied ReLU-output model; `expected_loss` sums them.

Output i sees ``t = b_i + s`` with ``s = sum_{j != i} G_ij x_j``. The part of the law of s with at
most one active feature is integrated in closed form, the rest by a cosine series.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.superposition.loss.characteristic import Count, ladder, multiples, spread, sum_law
from circuitax.superposition.loss.unit_error import (
    curvatures,
    mean_error_off,
    mean_error_on,
    slope_off,
    slope_on,
)

# The shortest window, for an output that nothing interferes with. Not longer: for a feature of tiny
# norm the loss has a kink at first order in its couplings, which the window must resolve.
SHORTEST_WINDOW = 1e-6
# What the window adds on both sides, as a share of its length.
MARGIN = 0.01


def output_error(
    couplings: Float[Array, " n_features"],
    bias: Float[Array, ""],
    own: Bool[Array, " n_features"],
    density: Float[Array, " n_features"],
    n_terms: int,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """``E (x_i - relu(..)_i)^2`` of one output and its truncation error."""
    value, terms = partial_error(couplings, bias, own, density, n_terms, n_terms, 0)
    return value, jnp.sum(terms[n_terms // 2 :])


def partial_error(
    couplings: Float[Array, " n_features"],
    bias: Float[Array, ""],
    own: Bool[Array, " n_features"],
    density: Float[Array, " n_features"],
    n_terms: Count,
    block: int,
    first: Count,
) -> tuple[Float[Array, ""], Float[Array, " block"]]:
    """Contribution of some cosine terms to `output_error`, and bounds of those terms.

    The first part, with ``first = 0``, also holds all that is no cosine term.
    """
    gain = jnp.sum(jnp.where(own, couplings, 0))
    active = jnp.sum(jnp.where(own, density, 0))
    a = jnp.where(own, 0, couplings)
    p = jnp.where(own, 0, density)

    # Any window that holds the support of t gives the same loss, so none is differentiated.
    reach = jnp.maximum(jnp.sum(jnp.abs(a)), SHORTEST_WINDOW)
    low = jax.lax.stop_gradient(bias + jnp.sum(jnp.minimum(a, 0)) - MARGIN * reach)
    length = jax.lax.stop_gradient((1 + 2 * MARGIN) * reach)
    atom, single = _few_active(a, p, length, n_terms if block else 1)

    # One active feature each, none, and the whole window: together, so that the code of one
    # average is compiled.
    high = low + length
    start = jnp.concatenate([jnp.full_like(a, bias), jnp.stack([bias, low])])
    end = jnp.concatenate([bias + a, jnp.stack([bias, high])])
    off = mean_error_off(start, end)
    mean_error = off + active * (mean_error_on(start, end, jnp.full_like(start, gain)) - off)
    closed = atom * mean_error[-2] + single @ mean_error[:-2]
    if block == 0:
        return closed, jnp.zeros((0,), a.dtype)

    # The quadratic c1 s + c2 s^2 carries the slopes at the window's ends, so that the rest
    # continues evenly, C^1: the coefficients below are then of order k^-3, from the kinks alone.
    below = low - bias
    ends = jnp.stack([low, high])
    slopes = slope_off(ends)
    slopes = slopes + active * (slope_on(ends, jnp.full_like(ends, gain)) - slopes)
    c2 = 0.5 * (slopes[1] - slopes[0]) / length
    c1 = slopes[0] - 2 * c2 * below
    mean = 0.5 * (p @ a)
    variance = p @ (a**2 * (1 / 3 - p / 4))
    mass = 1 - atom - jnp.sum(single)
    second = mean**2 + variance - single @ a**2 / 3
    middle = below + 0.5 * length
    level = mean_error[-1] - c1 * middle - c2 * (middle**2 + length**2 / 12)
    smooth = closed + mass * level + c1 * (mean - 0.5 * (single @ a)) + c2 * second

    step = jnp.pi / length
    off, on = curvatures(low, length, gain, block, first)
    curvature = off + spread(active, on - off)
    law, sparse = sum_law(step * a, p, single, block, first)
    phase = multiples(-step * below, block, first)
    coefficients = curvature / ladder(step, block, first) ** 2
    waves = (phase * (law - sparse - atom)).real
    value = jnp.where(first == 0, smooth, 0) - 2 / length * (coefficients @ waves)
    return value, 2 / length * (jnp.abs(coefficients) * jnp.abs(waves))


def _few_active(
    a: Float[Array, " n_features"],
    p: Float[Array, " n_features"],
    length: Float[Array, ""],
    n_terms: Count,
) -> tuple[Float[Array, ""], Float[Array, " n_features"]]:
    """Weights of the atom at s = 0 and of the uniforms on [0, G_ij] that are taken out of the law.
    """
    resolution = 2 * length / (jnp.pi * n_terms)
    loud = jax.lax.stop_gradient(a**2 / (a**2 + resolution**2))
    quiet = 1 - p * loud
    ones = jnp.ones((1,), quiet.dtype)
    before = jnp.cumprod(jnp.concatenate([ones, quiet[:-1]]))
    after = jnp.cumprod(jnp.concatenate([ones, quiet[:0:-1]]))[::-1]
    single = p * before * after
    return before[-1] * quiet[-1] - (1 - loud) @ single, single
