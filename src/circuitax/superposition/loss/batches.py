"""Batches of a few sizes, to compile few programs, and options for fast compilation."""

from importlib import metadata

import numpy as np
from jaxtyping import Int

# Members advanced together: the smallest of these that holds all, or the largest.
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
# These older emitters of the CPU's compiler take half the time for a program of the same speed.
# jaxlib 0.12 has the newer ones only, and refuses the option.
_OLDER = tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2]) < (0, 11)
OPTIONS: dict[str, bool | str] = {"xla_cpu_use_fusion_emitters": False} if _OLDER else {}


def batch_size(n_members: int) -> int:
    """The size of batches for so many members."""
    return next((size for size in SIZES if size >= n_members), SIZES[-1])


def batches(members: Int[np.ndarray, " member"], size: int) -> list[np.ndarray]:
    """Members in batches of one size, the last padded by repetition."""
    starts = range(0, len(members), size)
    return [np.resize(members[start : start + size], size) for start in starts]
