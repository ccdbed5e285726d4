"""The exact expected error of one output of a tied ReLU-output model.

With gain ``g = |W_i|^2`` and drive ``t = b_i + s`` (s: what the other features put on output i),

    off(t) = relu(t)^2                                 when feature i is off,
    on(t)  = int_0^1 (x - relu(g x + t))^2 dx          when it is on,

are piecewise polynomial in t and once differentiable; their second derivatives jump at 0 and -g
only. This file holds all that the exact losses need of them: values, slopes, averages over an
interval of drives (which is what one more active feature does) and the cosine spectrum of their
curvature. No formula divides by a difference that may vanish, so norms, couplings and biases of 0
are safe, in both precisions and under ``jax.grad``.

Output i sees ``t = b_i + s`` with ``s = sum_{j != i} G_ij x_j``. The part of the law of s with at
most one active feature is integrated in closed form, the rest by a cosine series.
"""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Complex, Float, Int

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
    return spread(step, jnp.arange(1, n_terms + 1, dtype=step.dtype) + first)


def spread(
    scale: Float[Array, "*shape"], vector: Float[Array, " n_terms"]
) -> Float[Array, "*shape n_terms"]:
    """Outer product of ``scale`` and ``vector``, as one step for the sake of its gradient."""
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
    """``prod_j (1 - p_j + p_j phi(k step_j))``, ``sum_j single_j phi(k step_j)``, as `ladder`."""

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


# Two Gauss nodes integrate a cubic exactly.
GAUSS_NODES = (0.5 - 0.5 / 3**0.5, 0.5 + 0.5 / 3**0.5)


def error_off(drive: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``relu(t)^2``."""
    return jax.nn.relu(drive) ** 2


def error_on(drive: Float[Array, "*shape"], gain: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``int_0^1 (x - relu(g x + t))^2 dx``.

    The value is 1/3 for ``t <= -g`` and ``(1-g)^2/3 - (1-g)t + t^2`` for ``t >= 0``. In between the
    ReLU opens at ``x = v = -t / g``, and the value is ``v^3/3 + (1-v)(A^2 + A v + v^2)/3`` with
    ``A = 1 - g (1 - v)``.
    """
    opening, at_opening, at_one = _opening(drive, gain)
    live = (1 - opening) * (at_one**2 + at_one * at_opening + at_opening**2)
    return (opening**3 + live) / 3


def slope_off(drive: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The derivative of `error_off`."""
    return 2 * jax.nn.relu(drive)


def slope_on(drive: Float[Array, "*shape"], gain: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The derivative of `error_on` in the drive."""
    opening, at_opening, at_one = _opening(drive, gain)
    return -(1 - opening) * (at_one + at_opening)


def mean_error_off(
    start: Float[Array, "*shape"], end: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The average of `error_off` over the interval between two drives, in either order."""
    low, high = jnp.minimum(start, end), jnp.maximum(start, end)
    bottom, top = jax.nn.relu(low), jax.nn.relu(high)
    # The share of the interval above 0; two branches, because (top - bottom) / width loses digits.
    crossing = (low < 0) & (high > 0)
    share = jnp.where(crossing, top / jnp.where(crossing, high - low, 1), (low >= 0) * 1.0)
    return share * (top**2 + top * bottom + bottom**2) / 3


def mean_error_on(
    start: Float[Array, "*shape"], end: Float[Array, "*shape"], gain: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The average of `error_on` over the interval between two drives, in either order."""
    low, high = jnp.minimum(start, end), jnp.maximum(start, end)
    width = high - low
    # Below this width the shares lose half their digits, and the midpoint rule has all of them.
    narrow = width < jnp.finfo(width.dtype).eps ** 0.5
    safe = jnp.where(narrow, 1, width)
    closes, opens = jnp.clip(-gain, low, high), jnp.clip(0, low, high)
    parts = ((closes, opens - closes), (opens, high - opens))
    nodes = [begin + node * length for begin, length in parts for node in GAUSS_NODES]
    # All drives in one array: the code of one evaluation is compiled, not that of five.
    drives = jnp.stack([*nodes, 0.5 * (low + high)])
    errors = error_on(drives, jnp.broadcast_to(gain, drives.shape))
    total = (closes - low) / safe / 3
    for i, (_, length) in enumerate(parts):
        total = total + 0.5 * length / safe * (errors[2 * i] + errors[2 * i + 1])
    return jnp.where(narrow, errors[4], total)


def curvatures(
    start: Float[Array, ""],
    length: Float[Array, ""],
    gain: Float[Array, ""],
    n_terms: int,
    first: Count = 0,
) -> tuple[Float[Array, " n_terms"], Float[Array, " n_terms"]]:
    """``int f''(t) cos(w (t - start)) dt`` over a window, f = off and on, ``w = k pi / length``."""
    step = jnp.pi / length
    low, high = (jnp.clip(kink, start, start + length) for kink in (-gain, jnp.zeros_like(gain)))
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    waves = multiples(step * jnp.stack([high - start, middle - start, half]), n_terms, first)
    kink, phase, ripple = waves[0], waves[1], waves[2]
    plateau = -2 * kink.imag / ladder(step, n_terms, first)
    # With r = -t/g, on'' = 2 (1 - r) - 2 r / g; at the middle of the cut-off ramp, and its slope.
    safe_gain = jnp.maximum(gain, jnp.finfo(gain.dtype).tiny ** 0.25)
    share = half / safe_gain
    height = 4 * half * (1 + middle / safe_gain) + 4 * share * middle / safe_gain
    tilt = 4 * share * half + 4 * share**2
    angle = ladder(step * half, n_terms, first)
    ramp = spread(height, sinc(angle, ripple.imag) * phase.real)
    ramp = ramp - spread(tilt, _spherical_bessel(angle, ripple) * phase.imag)
    return plateau, ramp + plateau


def _opening(
    drive: Float[Array, "*shape"], gain: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Opening of the ReLU in [0, 1], and the signed error ``x - relu(g x + t)`` there and at 1."""
    safe_gain = jnp.maximum(gain, jnp.finfo(gain.dtype).tiny ** 0.25)
    opening = jnp.clip(-drive / safe_gain, 0, 1)
    excess = jax.nn.relu(drive)
    return opening, opening - excess, 1 - gain * (1 - opening) - excess


def _spherical_bessel(
    angle: Float[Array, "*shape"], phase: Complex[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """``(sin z - z cos z) / z^2``, given ``exp(iz)``."""
    small = jnp.abs(angle) < 0.3
    z = jnp.where(small, 1, angle)
    series = 1 - angle**2 / 10 * (1 - angle**2 / 28 * (1 - angle**2 / 54 * (1 - angle**2 / 88)))
    return jnp.where(small, angle / 3 * series, (phase.imag - z * phase.real) / z**2)


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
    """Weights of the atom at s = 0 and the uniforms on [0, G_ij] that are taken out of the law."""
    resolution = 2 * length / (jnp.pi * n_terms)
    loud = jax.lax.stop_gradient(a**2 / (a**2 + resolution**2))
    quiet = 1 - p * loud
    ones = jnp.ones((1,), quiet.dtype)
    before = jnp.cumprod(jnp.concatenate([ones, quiet[:-1]]))
    after = jnp.cumprod(jnp.concatenate([ones, quiet[:0:-1]]))[::-1]
    single = p * before * after
    return before[-1] * quiet[-1] - (1 - loud) @ single, single
