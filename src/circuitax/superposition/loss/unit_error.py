"""The squared error of one ReLU output as a function of its drive.

With gain ``g = |W_i|^2`` and drive ``t = b_i + s`` (s: what the other features put on output i),

    off(t) = relu(t)^2                                 when feature i is off,
    on(t)  = int_0^1 (x - relu(g x + t))^2 dx          when it is on,

are piecewise polynomial in t and once differentiable; their second derivatives jump at 0 and -g
only. This file holds all that the exact losses need of them: values, slopes, averages over an
interval of drives (which is what one more active feature does) and the cosine spectrum of their
curvature. No formula divides by a difference that may vanish, so norms, couplings and biases of 0
are safe, in both precisions and under ``jax.grad``.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from circuitax.kernel.checks import check_range
from circuitax.superposition.loss.characteristic import Count, ladder, multiples, sinc, spread

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
    check_range("gain", gain, "[0, inf)")
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
    """``int f''(t) cos(w (t - start)) dt`` over a window for f = off and on, ``w = k pi / length``.
    """
    check_range("length", length, "(0, inf)")
    check_range("gain", gain, "[0, inf)")
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
    check_range("gain", gain, "[0, inf)")
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
