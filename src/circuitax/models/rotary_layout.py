"""The two orders of rotary pairs in files of weights."""

import numpy as np
from jaxtyping import Shaped


def to_neighbours(x: Shaped[np.ndarray, "*shape"], n_turned: int) -> Shaped[np.ndarray, "*shape"]:
    """Pairs (i, i + n_turned/2) of the last axis moved to (2i, 2i + 1), as in `kernel.rotary`."""
    if n_turned % 2:
        raise ValueError(f"n_turned={n_turned} must be even")
    order = np.arange(x.shape[-1])
    half = n_turned // 2
    order[0:n_turned:2], order[1:n_turned:2] = np.arange(half), half + np.arange(half)
    return x[..., order]
