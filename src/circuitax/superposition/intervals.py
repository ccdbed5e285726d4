"""Arithmetic that proves: intervals of floats, balls at any precision, and exact rationals.

The result of an operation on intervals holds every number that the operation gives on members of
these intervals: both ends are computed in float64, which is wrong by at most half a unit in the
last place, and then moved outwards to the next float.

A ball is a midpoint and a radius, and every operation widens the radius by its own rounding, so
that the result holds the exact one. This is the only file that imports the library.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from math import inf, nextafter
from typing import Any

import numpy as np

# A float, an array of floats, an Interval or a ball: whatever has
# + - * / and, unless it is made of floats, ``nonnegative_part``.
Number = Any


def relu(value: Number) -> Number:
    """``max(value, 0)``."""
    if isinstance(value, float | np.ndarray):
        return np.maximum(value, 0.0)
    return value.nonnegative_part()


# An end x moves by |x| STEP + SMALLEST, which is at least one unit in its last place: as far as
# np.nextafter would move it or one float further, and ten times as fast.
STEP, SMALLEST = 2.0**-52, 5e-324

CLOSE_TO_ZERO = 1e-300


class Interval:
    """Arrays of intervals ``[low, high]``; plain numbers count as intervals of one point.

    Attributes:
        low: Lower ends, float64.
        high: Upper ends, float64, nowhere below ``low``.
    """

    __array_ufunc__ = None  # array + Interval is Interval.__radd__
    __slots__ = ("high", "low")

    def __init__(self, low: Number, high: Number = None) -> None:
        self.low = np.asarray(low, np.float64)
        self.high = self.low if high is None else np.asarray(high, np.float64)

    def __add__(self, other: Number) -> "Interval":
        other = _interval(other)
        return _outwards(self.low + other.low, self.high + other.high)

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Number) -> "Interval":
        other = _interval(other)
        return _outwards(self.low - other.high, self.high - other.low)

    def __rsub__(self, other: Number) -> "Interval":
        return _interval(other) - self

    def __mul__(self, other: Number) -> "Interval":
        if not isinstance(other, Interval) and np.ndim(other) == 0:
            ends = (self.low * other, self.high * other)
            return _outwards(*(ends if other >= 0 else ends[::-1]))
        other = _interval(other)
        first, second = self.low * other.low, self.low * other.high
        third, fourth = self.high * other.low, self.high * other.high
        return _outwards(
            np.minimum(np.minimum(first, second), np.minimum(third, fourth)),
            np.maximum(np.maximum(first, second), np.maximum(third, fourth)),
        )

    def __truediv__(self, other: Number) -> "Interval":
        """The quotient, the whole line for divisors that hold 0 or nearly hold it."""
        other = _interval(other)
        safe = (other.low > CLOSE_TO_ZERO) | (other.high < -CLOSE_TO_ZERO)
        low, high = (np.where(safe, end, 1.0) for end in (other.low, other.high))
        inverse = _outwards(1 / high, 1 / low)
        product = self * inverse
        return Interval(np.where(safe, product.low, -np.inf), np.where(safe, product.high, np.inf))

    __radd__ = __add__
    __rmul__ = __mul__

    def nonnegative_part(self) -> "Interval":
        """``relu``, exactly."""
        return Interval(np.maximum(self.low, 0.0), np.maximum(self.high, 0.0))

    def sqrt(self) -> "Interval":
        """The square root of the nonnegative part."""
        rooted = _outwards(np.sqrt(np.maximum(self.low, 0.0)), np.sqrt(np.maximum(self.high, 0.0)))
        return rooted.nonnegative_part()


def _interval(value: Number) -> Interval:
    return value if isinstance(value, Interval) else Interval(value)


def _outwards(low: Number, high: Number) -> Interval:
    return Interval(
        low - (np.abs(low) * STEP + SMALLEST),
        high + (np.abs(high) * STEP + SMALLEST),
    )


HOW = "pip install 'circuitax[flint]' (the package python-flint)"


def has_flint() -> bool:
    """Whether the library is installed."""
    return find_spec("flint") is not None


def flint_version() -> str:
    """Version of the library, ``"absent"`` where it is not installed."""
    return version("python-flint") if has_flint() else "absent"


@contextmanager
def ball_precision(bits: int) -> Iterator[None]:
    """Context in which balls have ``bits`` bits; flint's own default is 53."""
    if not has_flint():
        raise ValueError(f"ball arithmetic needs a library that is not installed: {HOW}")
    with import_module("flint").ctx.workprec(bits):
        yield


def ball(value: float) -> Any:
    """The ball of radius 0 around a float."""
    return import_module("flint").arb(float(value))


def cosine_of_turn(part: int, whole: int) -> Any:
    """``cos(2 pi part / whole)`` as a ball."""
    flint = import_module("flint")
    return flint.arb.cos_pi_fmpq(flint.fmpq(2 * part, whole))


def upper_end(value: Any) -> float:
    """A float no smaller than any number of a ball."""
    return _beyond(value, 1)


def lower_end(value: Any) -> float:
    """A float no larger than any number of a ball."""
    return _beyond(value, -1)


def _beyond(value: Any, sign: int) -> float:
    # A ball's end becomes a float by rounding to nearest; one step further is beyond it.
    end = value.upper() if sign > 0 else value.lower()
    return nextafter(float(end), sign * inf)
