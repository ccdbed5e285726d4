"""Generic arithmetic: one formula serves floats, intervals and balls."""

from typing import Any

import numpy as np

# A float, an array of floats, an Interval (`intervals`) or a ball (`balls`): whatever has
# + - * / and, unless it is made of floats, ``nonnegative_part``.
Number = Any


def relu(value: Number) -> Number:
    """``max(value, 0)``."""
    if isinstance(value, float | np.ndarray):
        return np.maximum(value, 0.0)
    return value.nonnegative_part()
