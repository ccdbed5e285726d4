"""Indices checked before JAX clamps them: a wrong layer or head would pass for another."""

import numpy as np
from jaxtyping import Array, Int


def check_index(name: str, index: int | np.integer | Int[Array, ""], size: int) -> None:
    """Refuse a static index outside ``[0, size)``; an array, which may be traced, is not looked at.

    Args:
        name: Of the argument, for the message.
        index: What the caller was given; negative ones do not count from the end.
        size: Of the axis.

    Raises:
        ValueError: If the index is out of range.
    """
    if isinstance(index, int | np.integer) and not 0 <= index < size:
        raise ValueError(f"{name}={index} must be from 0 to {size - 1}")
