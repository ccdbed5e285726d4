"""Exact expected loss of a tied ReLU-output model under independent sparse features.

Output i sees a scalar, ``t = b_i + s`` with ``s = sum_{j != i} G_ij x_j`` and ``G = W^T W``, so

    E loss_i = I_i E[ (1 - p_i) off_i(t) + p_i on_i(t) ]        (`unit_error`)

is one integral against the law of s, whose characteristic function is the product
``Phi(w) = prod_j (q_j + p_j phi(w G_ij))``. The part of that law with at most one active feature
is integrated in closed form. The rest has a continuous density, and a cosine series converges on
it like ``k^-5``. Cost ``O(n_features^2 n_terms)``; a pattern is never enumerated.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.kernel.checks import check_range
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.characteristic import ladder, multiples, spread, sum_law
from circuitax.superposition.convention import Convention
from circuitax.superposition.unit_error import (
    curvatures,
    error_off,
    error_on,
    mean_error_off,
    mean_error_on,
    slope_off,
    slope_on,
)

# Outputs are treated together while their characteristic functions fit this many numbers.
TOGETHER = 2**21
# The shortest window, for an output that nothing interferes with. Not longer: for a feature of tiny
# norm the loss has a kink at first order in its couplings, which the window must resolve.
SHORTEST_WINDOW = 1e-6
# What the window adds on both sides, as a share of its length.
MARGIN = 0.01


class ExpectedLoss(NamedTuple):
    """An expected loss, and an estimate of its truncation error that is usually too large."""

    value: Float[Array, "*batch"]
    error: Float[Array, "*batch"]


def expected_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    n_terms: int = 256,
    convention: Convention | str = Convention.sum,
) -> ExpectedLoss:
    """``E_x sum_i I_i (x_i - relu(W^T W x + b)_i)^2``, with ``x_i`` uniform on [0, 1] or zero.

    The loss is differentiable in weights, density and importance. The function takes one model; use
    ``jax.vmap`` for several. Call it under ``jax.enable_x64`` with float64 arrays: in float32,
    rounding limits the accuracy to about 1e-6.

    Args:
        weights: ``W [n_hidden, n_features]`` and ``b [n_features]``.
        density: P(feature is on), in [0, 1].
        importance: I_i, not negative.
        n_terms: Terms of the cosine series, at least 1; about 64 for three features. Up to two
            features the closed form is exact and 0 is allowed too.
        convention: ``sum`` or ``mean`` over the features.

    Returns:
        The value, and as error the sum of the magnitudes of the last half of the terms: an upper
        bound of the tail when terms fall at least like ``k^-2``, usually ten times too large.

    Raises:
        ValueError: If ``n_terms`` is too small, a density is outside [0, 1], an importance is
            negative, or ``convention`` is neither ``sum`` nor ``mean``.

    Source: toy-models paper, "Demonstrating Superposition"; erratum E17 of docs/errata.md for the
        two conventions.
    """
    gram = weights.W.T @ weights.W
    n_features = gram.shape[0]
    convention = Convention(convention)
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    if n_terms < (n_features > 2):
        raise ValueError(
            f"n_terms={n_terms} must be at least 1 for n_features={n_features}: only up to two "
            "features (and then from 0) is the closed form exact"
        )

    def one(output: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        row, bias, own = output
        return output_error(row, bias, own, density, n_terms)

    outputs = (gram, weights.b, jnp.eye(n_features, dtype=bool))
    chunk = max(1, TOGETHER // max(1, n_features * n_terms))
    if chunk >= n_features:
        value, error = jax.vmap(one)(outputs)
    else:  # Recomputed in the backward pass: memory stays that of one chunk.
        value, error = jax.lax.map(jax.checkpoint(one), outputs, batch_size=chunk)
    scale = 1 / n_features if convention is Convention.mean else 1.0
    return ExpectedLoss(scale * (importance @ value), scale * (importance @ error))


def converged_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    tolerance: float,
    convention: Convention | str = Convention.sum,
    start_terms: int = 64,
    max_terms: int = 16384,
) -> tuple[ExpectedLoss, int]:
    """`expected_loss`, with twice as many terms again and again until its error is small enough.

    The loop runs on the host, so the function cannot be jitted.

    Args:
        weights: As for `expected_loss`, like density, importance and convention.
        density: P(feature is on), in [0, 1].
        importance: I_i, not negative.
        tolerance: Largest error accepted, positive.
        convention: ``sum`` or ``mean`` over the features.
        start_terms: Terms of the first attempt, at least 1.
        max_terms: Terms that no attempt exceeds.

    Returns:
        The loss and the number of terms it took.

    Raises:
        ValueError: If an argument is out of range or ``max_terms`` does not reach the tolerance.
    """
    check_range("tolerance", tolerance, "(0, inf)")
    check_range("start_terms", start_terms, "[1, inf)")
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    n_terms = start_terms
    while True:
        loss = _jitted(weights, density, importance, n_terms=n_terms, convention=convention)
        if float(loss.error) <= tolerance:
            return loss, n_terms
        if 2 * n_terms > max_terms:
            raise ValueError(
                f"tolerance={tolerance} is not met by n_terms={n_terms}, whose error is "
                f"{float(loss.error):.1e}: raise max_terms, or use float64"
            )
        n_terms *= 2


_jitted = jax.jit(expected_loss, static_argnames=("n_terms", "convention"))


def output_error(
    couplings: Float[Array, " n_features"],
    bias: Float[Array, ""],
    own: Bool[Array, " n_features"],
    density: Float[Array, " n_features"],
    n_terms: int,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """``E (x_i - relu(..)_i)^2`` of one output and its truncation error.

    Args:
        couplings: Row i of the Gram matrix.
        bias: ``b_i``.
        own: True at i only.
        density: P(feature is on), in [0, 1].
        n_terms: Terms of the cosine series; 0 leaves the series out, which is exact only where at
            most one other feature is coupled.
    """
    gain = jnp.sum(jnp.where(own, couplings, 0))
    active = jnp.sum(jnp.where(own, density, 0))
    a = jnp.where(own, 0, couplings)
    p = jnp.where(own, 0, density)

    # Any window that holds the support of t gives the same loss, so none is differentiated.
    reach = jnp.maximum(jnp.sum(jnp.abs(a)), SHORTEST_WINDOW)
    low = jax.lax.stop_gradient(bias + jnp.sum(jnp.minimum(a, 0)) - MARGIN * reach)
    length = jax.lax.stop_gradient((1 + 2 * MARGIN) * reach)
    atom, single = _few_active(a, p, length, max(n_terms, 1))

    def mean_error(start: Array, end: Array) -> Array:
        off = mean_error_off(start, end)
        return off + active * (mean_error_on(start, end, jnp.full_like(start, gain)) - off)

    at_rest = error_off(bias) + active * (error_on(bias, gain) - error_off(bias))
    start = jnp.full_like(a, bias)
    closed = atom * at_rest + single @ mean_error(start, start + a)
    if n_terms == 0:
        return closed, jnp.zeros_like(closed)

    # The quadratic c1 s + c2 s^2 carries the slopes at the window's ends, so that the rest
    # continues evenly, C^1: the coefficients below are then of order k^-3, from the kinks alone.
    high, below = low + length, low - bias
    slopes = [slope_off(t) + active * (slope_on(t, gain) - slope_off(t)) for t in (low, high)]
    c2 = 0.5 * (slopes[1] - slopes[0]) / length
    c1 = slopes[0] - 2 * c2 * below
    mean = 0.5 * (p @ a)
    variance = p @ (a**2 * (1 / 3 - p / 4))
    mass = 1 - atom - jnp.sum(single)
    first = mean - 0.5 * (single @ a)
    second = mean**2 + variance - single @ a**2 / 3
    middle = below + 0.5 * length
    level = mean_error(low, high) - c1 * middle - c2 * (middle**2 + length**2 / 12)

    step = jnp.pi / length
    off, on = curvatures(low, length, gain, n_terms)
    curvature = off + spread(active, on - off)
    law, sparse = sum_law(step * a, p, single, n_terms)
    phase = multiples(-step * below, n_terms)
    coefficients = curvature / ladder(step, n_terms) ** 2
    waves = (phase * (law - sparse - atom)).real
    value = closed + mass * level + c1 * first + c2 * second
    value = value - 2 / length * (coefficients @ waves)
    half = n_terms // 2
    return value, 2 / length * (jnp.abs(coefficients[half:]) @ jnp.abs(waves[half:]))


def _few_active(
    a: Float[Array, " n_features"],
    p: Float[Array, " n_features"],
    length: Float[Array, ""],
    n_terms: int,
) -> tuple[Float[Array, ""], Float[Array, " n_features"]]:
    """Weights of the atom at s = 0 and of the uniforms on [0, G_ij] that are taken out of the law.

    Any weights leave the loss exact, since the series carries the difference; these make it
    converge. A coupling below the series' resolution counts as silent (`loud` near 0), whatever it
    does: otherwise the digon's orthogonal features, with G_ij = 0, would leave undamped atoms.
    """
    resolution = 2 * length / (jnp.pi * n_terms)
    loud = jax.lax.stop_gradient(a**2 / (a**2 + resolution**2))
    quiet = 1 - p * loud
    ones = jnp.ones((1,), quiet.dtype)
    before = jnp.cumprod(jnp.concatenate([ones, quiet[:-1]]))
    after = jnp.cumprod(jnp.concatenate([ones, quiet[:0:-1]]))[::-1]
    single = p * before * after
    return before[-1] * quiet[-1] - (1 - loud) @ single, single
