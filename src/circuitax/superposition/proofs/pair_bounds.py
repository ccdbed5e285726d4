"""Lower bounds of the two-feature loss on boxes, by convexity.

Up to a sign, ``W = (w_1, w_2)`` is a point of the plane: its tilt ``alpha = (w_1^2 - w_2^2)/2`` and
its coupling ``k = w_1 w_2``. Then ``w_1^2 = u + alpha`` and ``w_2^2 = u - alpha`` with the norm
``u = (alpha^2 + k^2)^(1/2)``, which is convex; and so, by `pair_loss`, are P and Q of either output
in (alpha, k, b). On a box, Q lies above its tangent plane at the centre, and P below its greatest
corner. What is left of

    F = p/3 - 2 P + Q  >=  p/3 + tangent of Q - 2 P

is concave, and least at a corner. The bound misses F by the square of the box's size, since both
steps are exact to first order.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from circuitax.superposition.proofs.exact_numbers import Number
from circuitax.superposition.proofs.intervals import Interval
from circuitax.superposition.proofs.pair_loss import pair_energy, pair_work

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
