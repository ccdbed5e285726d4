"""Ball arithmetic at any precision, by the `flint` library: numbers with a proven error.

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
