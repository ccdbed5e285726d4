"""The numbers that torch's CPU generator draws after ``manual_seed``, without torch.

It is a Mersenne Twister started by the classic 32-bit seeding, which NumPy has.
"""

import math

import numpy as np


class TorchDraws:
    """Draws in torch's order; each number takes one 32-bit word.

    Args:
        seed: As in ``torch.manual_seed``, in ``[0, 2**32)``.

    Raises:
        ValueError: If the seed is out of range.

    Source: PyTorch, ``aten/src/ATen/core/MT19937RNGEngine.h`` and ``DistributionsHelper.h``.
    """

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 2**32:
            raise ValueError(f"seed={seed} must be from 0 to {2**32 - 1}")
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
        """``torch.randint``: in ``[low, high)``, row by row."""
        return self._words(shape) % (high - low) + low

    def uniforms(self, shape: tuple[int, ...]) -> np.ndarray:
        """``torch.rand`` in single precision: in ``[0, 1)``."""
        return (self._words(shape) & 0xFFFFFF) / 2**24

    def permutation(self, n: int) -> np.ndarray:
        """``torch.randperm``."""
        order = np.arange(n)
        for i, word in enumerate(self._words((max(n - 1, 0),))):
            j = i + word % (n - i)
            order[i], order[j] = order[j], order[i]
        return order

    def _words(self, shape: tuple[int, ...]) -> np.ndarray:
        words = self._bits.random_raw(math.prod(shape))
        return np.asarray(words, np.int64).reshape(shape)
