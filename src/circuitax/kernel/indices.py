"""Checks of indices, since JAX clamps a wrong layer or head and silently uses another."""

import numpy as np
from jaxtyping import Array, Int


def check_index(name: str, index: int | np.integer | Int[Array, ""], size: int) -> None:
    """Refuse a static index outside ``[0, size)``; arrays, which may be traced, pass.

    Args:
        name: Name of the argument, for the message.
        index: The index given; negative ones do not count from the end.
        size: Size of the axis.

    Raises:
        ValueError: If the index is out of range.
    """
    if isinstance(index, int | np.integer) and not 0 <= index < size:
        raise ValueError(f"{name}={index} must be from 0 to {size - 1}")
