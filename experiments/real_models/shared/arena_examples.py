"""ARENA's examples, on which its numbers were taken, drawn again from their seeds in PyTorch."""

import math
from typing import NamedTuple

import numpy as np

NO_LETTER = 10  # of the first unique letters: the start token, and the answer "there is none"


class TorchDraws:
    """What torch's CPU generator draws after ``manual_seed``; a number takes one 32-bit word.

    It is a Mersenne Twister started by the classic 32-bit seeding, which NumPy has.

    Source: PyTorch, ``aten/src/ATen/core/MT19937RNGEngine.h`` and ``DistributionsHelper.h``.
    """

    def __init__(self, seed: int) -> None:
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


class Examples(NamedTuple):
    """Token ids, and the right answer to each text or at each position."""

    tokens: np.ndarray
    labels: np.ndarray


def palindromes(n: int, seed: int) -> Examples:
    """31, ten numbers below 31, ten more, 32; label 1 where the numbers are a palindrome.

    Source: ARENA, monthly problem of July 2023.
    """
    return _palindromes(n, TorchDraws(seed))


def broken_palindromes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of palindromes, and of the same texts with another first number in every pair.

    Source: ARENA, solution of July 2023, section 5.
    """
    draws = TorchDraws(seed)
    whole = _palindromes(n, draws).tokens
    whole[:, 1:11] = whole[:, 20:10:-1]
    broken = whole.copy()
    broken[:, 1:11] = (whole[:, 1:11] + draws.integers(1, 30, (n, 10))) % 31
    return whole, broken


def _palindromes(n: int, draws: TorchDraws) -> Examples:
    part = (n // 2, 10)
    half, other = draws.integers(0, 31, part), draws.integers(0, 31, part)
    flip = draws.integers(0, 2, part).astype(bool)
    first = draws.integers(0, 31, part)
    second = np.where(flip, other, half[:, ::-1])
    numbers = np.concatenate([np.hstack([first, first[:, ::-1]]), np.hstack([half, second])])
    numbers = numbers[draws.permutation(len(numbers))]
    labels = (numbers == numbers[:, ::-1]).all(axis=1)
    return Examples(np.pad(numbers, ((0, 0), (1, 1)), constant_values=(31, 32)), labels.astype(int))


def unique_letters(n: int, seed: int) -> Examples:
    """10, then 19 letters below 10; label: the first letter that has occurred once so far, or 10.

    Source: ARENA, monthly problem of August 2023.
    """
    letters = TorchDraws(seed).integers(0, NO_LETTER, (n, 19))
    labels = np.full((n, 20), NO_LETTER)
    for i in range(1, 20):
        seen = letters[:, :i]
        once = (seen[:, :, None] == seen[:, None, :]).sum(axis=2) == 1
        first = seen[np.arange(n), once.argmax(axis=1)]
        labels[:, i] = np.where(once.any(axis=1), first, NO_LETTER)
    return Examples(np.pad(letters, ((0, 0), (1, 0)), constant_values=NO_LETTER), labels)


def running_signs(n: int, seed: int) -> Examples:
    """20 values from -5 to 5, as ids ``value + 5``; label: 1 plus the sign of the sum so far.

    Source: ARENA, monthly problem of November 2023.
    """
    draws = TorchDraws(seed)
    values = draws.integers(-5, 6, (n, 20))
    for j in range(1, 20):
        u, size = draws.uniforms((n,)), draws.integers(0, 6, (n,))
        back = (values[:, :j].sum(axis=1) > 0) == (u < 0.7)
        values[:, j] = np.where(back, -size, size)
    return Examples(values + 5, 1 + np.sign(values.cumsum(axis=1)))
