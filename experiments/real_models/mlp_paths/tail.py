"""How long the tail of single paths is: shares of the largest, and how many hold half."""

import numpy as np

TAIL = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)  # largest paths whose share is kept


def shares_of_largest(sizes: np.ndarray) -> np.ndarray:
    """Share of a sum that its largest 1, 3, 10, … terms make; 1 where there are fewer."""
    together = np.append(np.sort(sizes)[::-1].cumsum(), sizes.sum())
    total = together[-1]
    return together[np.minimum(TAIL, len(sizes)) - 1] / total if total else np.ones(len(TAIL))


def half_of(sizes: np.ndarray) -> int:
    """The fewest terms of a sum that hold half of it."""
    together = np.sort(sizes)[::-1].cumsum()
    return int(np.searchsorted(together, together[-1] / 2)) + 1
