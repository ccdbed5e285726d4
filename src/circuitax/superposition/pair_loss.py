"""Two features in one dimension: loss in closed form, its bounds on boxes, and classes.

Output 1 is ``relu(z)`` with ``z = a x + k y + b``, where ``a = w_1^2`` and ``k = w_1 w_2``; its own
feature x and the other one y are on with probability p each, and then uniform on [0, 1]. With
``q = 1 - p`` its expected squared error is

    F = p/3 - 2 P + Q,        P = E[x relu(z)],        Q = E[relu(z)^2].

All cases (signs of k and b, kinks inside the square or not) are one formula in ``tau = relu(t)``
and the open share ``o = clip(1 + t/a, 0, 1)``, the part of x in [0, 1] with ``a x + t > 0``.
Integrals over x alone, at a drive t, are

    S(t) = int x relu(a x + t) dx    = a o^2 (3 - o)/6 + tau/2,
    R(t) = int relu(a x + t)^2 dx    = a^2 o^3/3 + a tau + tau^2,

and the integrals over y are differences of their antiderivatives in t, divided by k.

P and Q are increasing and jointly convex in (a, k, b). Functions here take floats, arrays,
intervals and balls (`intervals`) alike.

Up to a sign, ``W = (w_1, w_2)`` is a point of the plane: its tilt ``alpha = (w_1^2 - w_2^2)/2`` and
its coupling ``k = w_1 w_2``. Then ``w_1^2 = u + alpha`` and ``w_2^2 = u - alpha`` with the norm
``u = (alpha^2 + k^2)^(1/2)``, which is convex; and so are P and Q of either output
in (alpha, k, b). On a box, Q lies above its tangent plane at the centre, and P below its greatest
corner. What is left of

    F = p/3 - 2 P + Q  >=  p/3 + tangent of Q - 2 P

is concave, and least at a corner. The bound misses F by the square of the box's size, since both
steps are exact to first order.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from circuitax.superposition.intervals import Interval, Number, relu


class Energy(NamedTuple):
    """``Q = E[relu(z)^2]`` and its partial derivatives."""

    value: Number
    by_gain: Number
    by_coupling: Number
    by_bias: Number


class DriveMoments(NamedTuple):
    """Integrals over x at a drive t, and their first antiderivatives in t."""

    relu: Number
    work: Number  # S
    work_sum: Number
    slope: Number  # R'
    square: Number  # R
    square_sum: Number


def pair_error(density: Number, gain: Number, coupling: Number, bias: Number) -> Number:
    """F, the expected squared error of one output: ``p/3 - 2 P + Q``.

    Source: toy-models paper, "Superposition as a Phase Change" (the model); integrals by us.
    """
    recovered = pair_work(density, gain, coupling, bias)
    energy = pair_energy(density, gain, coupling, bias)
    return density / 3 - 2 * recovered + energy.value


def pair_work(density: Number, gain: Number, coupling: Number, bias: Number) -> Number:
    """``P = E[x relu(z)]``; arguments as for `pair_error`."""
    rest, driven = drive_moments(bias, gain), drive_moments(bias + coupling, gain)
    return _work(density, coupling, rest, driven)


def pair_energy(density: Number, gain: Number, coupling: Number, bias: Number) -> Energy:
    """``Q = E[relu(z)^2]`` with its derivatives; arguments as for `pair_error`."""
    p, q, k = density, 1 - density, coupling
    rest, driven = drive_moments(bias, gain), drive_moments(bias + coupling, gain)
    squares = driven.relu * driven.relu, rest.relu * rest.relu
    alone = (squares[0] * driven.relu - squares[1] * rest.relu) / (3 * k)
    both = (driven.square_sum - rest.square_sum) / k
    value = q * q * squares[1] + p * q * (alone + rest.square) + p * p * both
    by_coupling = (p * q * (squares[0] - alone) + p * p * (driven.square - both)) / k
    by_bias = (
        2 * q * q * rest.relu
        + p * q * ((squares[0] - squares[1]) / k + rest.slope)
        + p * p * (driven.square - rest.square) / k
    )
    return Energy(value, 2 * _work(p, k, rest, driven), by_coupling, by_bias)


def _work(p: Number, k: Number, rest: DriveMoments, driven: DriveMoments) -> Number:
    return p * ((1 - p) * rest.work + p * (driven.work_sum - rest.work_sum) / k)


def drive_moments(drive: Number, gain: Number) -> DriveMoments:
    """Integrals over the own feature x in [0, 1] of ``relu(a x + t)``, at a drive t."""
    a, tau = gain, relu(drive)
    o = 1 - relu(1 - relu(1 + drive / a))
    once = a * o
    twice = once * o
    thrice = once * twice
    return DriveMoments(
        relu=tau,
        work=twice * (3 - o) / 6 + tau / 2,
        work_sum=thrice * (4 - o) / 24 + tau * (a / 3 + tau / 4),
        slope=twice + 2 * tau,
        square=thrice / 3 + tau * (a + tau),
        square_sum=thrice * once / 12 + tau * (a * a / 3 + tau * (a / 2 + tau / 3)),
    )


# Far above what rounding does to a sum of three numbers below 1e3.
SLACK = 1e-9


class Plane(NamedTuple):
    """Boxes of weights: lower ends of tilt and coupling, and the common sizes."""

    tilt: Float[np.ndarray, " box"]
    coupling: Float[np.ndarray, " box"]
    tilt_size: float
    coupling_size: float

    def ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Lower and upper tilt, lower and upper coupling: exact, where few bits are in use."""
        return (
            self.tilt,
            self.tilt + self.tilt_size,
            self.coupling,
            self.coupling + self.coupling_size,
        )


class Squares(NamedTuple):
    """Ranges of ``w_1^2`` and ``w_2^2`` in every box, rounded outwards."""

    first: Interval
    second: Interval


def squares(plane: Plane) -> Squares:
    """Ranges of the squared weights in a box."""
    low, high, below, above = plane.ends()
    nearest = np.where((below < 0) & (above > 0), 0.0, np.minimum(np.abs(below), np.abs(above)))
    farthest = np.maximum(np.abs(below), np.abs(above))

    def square(sign: int, least: np.ndarray, most: np.ndarray) -> Interval:
        bottom = (norm(Interval(least), Interval(nearest)) + sign * least).nonnegative_part()
        top = norm(Interval(most), Interval(farthest)) + sign * most
        return Interval(bottom.low, top.high)

    return Squares(square(1, low, high), square(-1, high, low))


def norm(tilt: Number, coupling: Number) -> Number:
    """``u = (alpha^2 + k^2)^(1/2)`` of intervals or balls."""
    return (tilt * tilt + coupling * coupling).sqrt()


def corner_bounds(
    density: float,
    sign: Number,
    tilt: tuple[Number, Number],
    coupling: tuple[Number, Number],
    bias: tuple[Number, Number],
    exact: Callable[[Number], Number] = Interval,
) -> list[list[Number]]:
    """For each corner in (alpha, k), the concave lower bound of F at both ends of the bias."""
    p, sign = exact(density), exact(sign)
    low_high = [[exact(end) for end in ends] for ends in (tilt, coupling, bias)]
    # Any point will do for the tangent, so its rounding is no error.
    tilt_0, coupling_0, bias_0 = (exact(0.5 * (a + b)) for a, b in (tilt, coupling, bias))
    u = norm(tilt_0, coupling_0)
    energy = pair_energy(p, _gain(u, sign * tilt_0), coupling_0, bias_0)
    by_tilt = energy.by_gain * (sign + tilt_0 / u)
    by_coupling = energy.by_gain * (coupling_0 / u) + energy.by_coupling
    level = p / 3 + energy.value
    corners = []
    for alpha in low_high[0]:
        for k in low_high[1]:
            gain = _gain(norm(alpha, k), sign * alpha)
            tangent = level + by_tilt * (alpha - tilt_0) + by_coupling * (k - coupling_0)
            corners.append(
                [
                    tangent + energy.by_bias * (b - bias_0) - 2 * pair_work(p, gain, k, b)
                    for b in low_high[2]
                ]
            )
    return corners


def steep_bound(density: float, gain: Interval) -> Float[np.ndarray, " box"]:
    """``F >= (p/3) (1 - 4/a)`` for all k and b, from the least gain of a box; 0 below 4."""
    least = np.maximum(gain.low, 4.0)
    return (Interval(density) / 3 * (1 - Interval(4.0) / least)).nonnegative_part().low


def raised(
    corners: Float[np.ndarray, "tile 4"], floor: Float[np.ndarray, " tile"]
) -> Float[np.ndarray, "tile 4"]:
    """The better of two bounds of a tile: a concave one, given at the corners, and a constant."""
    return np.where(corners.min(axis=1, keepdims=True) >= floor[:, None], corners, floor[:, None])


def useful(plane: Plane, gain: Interval, bias: np.ndarray, size: float) -> Bool[np.ndarray, " box"]:
    """Whether the best bias of some point of a box may lie in ``[bias, bias + size]``."""
    _, _, below, above = plane.ends()
    least = -gain.high - np.maximum(above, 0.0)
    most = 1 + np.maximum(-below, 0.0)
    return (bias + size >= least - SLACK) & (bias <= most + SLACK)


def _gain(u: Number, signed_tilt: Number) -> Number:
    return (u + signed_tilt).nonnegative_part()


# The thresholds of `phases`, squared where they are norms.
REPRESENTED_SQ, SHARED = 0.25, 0.5


class PairClass(IntEnum):
    """Phase of the last of two features, in the order of `pair_classes`."""

    ignored = 0
    """``|w_2| < 1/2``."""
    dedicated = 1
    """``|w_2| >= 1/2`` and ``w_1^2 < 1/2``."""
    antipodal = 2
    """Superposed: ``|w_2| >= 1/2``, ``w_1^2 >= 1/2``, and the signs differ."""
    aligned = 3
    """The same with equal signs."""


def pair_classes(plane: Plane) -> Bool[np.ndarray, "box 4"]:
    """Mask of each `PairClass` with a member in each box; rounding may add one, and loses none."""
    first, second = squares(plane)
    _, _, below, above = plane.ends()
    kept = second.high >= REPRESENTED_SQ
    shared = kept & (first.high >= SHARED)
    return np.stack(
        [
            second.low < REPRESENTED_SQ,
            kept & (first.low < SHARED),
            shared & (below < 0),
            shared & (above > 0),
        ],
        axis=-1,
    )


def lopsided(plane: Plane, least: float) -> Bool[np.ndarray, "box 2"]:
    """Whether a box has members with ``|w_1^2 - w_2^2| / 2`` up to ``least``, and above it."""
    low, high, _, _ = plane.ends()
    nearest = np.where((low < 0) & (high > 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return np.stack([nearest <= least, np.maximum(np.abs(low), np.abs(high)) >= least], axis=-1)
