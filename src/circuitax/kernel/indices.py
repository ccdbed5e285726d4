"""Checks of indices, since JAX clamps a wrong layer or head and silently uses another."""

from operator import index as as_integer
from typing import SupportsIndex

import numpy as np
from jaxtyping import Array, Int

from circuitax.kernel.checks import shortened


def check_index(name: str, index: int | np.integer | Int[Array, ""], size: int) -> None:
    """Refuse a static index outside ``[0, size)``; arrays, which may be traced, pass."""
    if hasattr(index, "ndim") and not isinstance(index, np.generic):
        return
    if not 0 <= whole(name, index) < size:
        raise ValueError(f"{name}={index} must be from 0 to {size - 1}")


def whole(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """A static integer, given as one of Python, NumPy or JAX."""
    try:
        given = None if isinstance(value, bool | np.bool_) else as_integer(value)
    except TypeError:
        given = None
    if given is None:
        raise ValueError(f"{name}={shortened(value)} must be an integer")
    if least is not None and given < least:
        raise ValueError(f"{name}={given} must be at least {least}")
    return given


def counted_index(name: str, index: SupportsIndex, size: int) -> int:
    """A static index from 0, where the one given may count from the end."""
    given = whole(name, index)
    if not -size <= given < size:
        raise ValueError(f"{name}={given} must be from {-size} to {size - 1}")
    return given % size
