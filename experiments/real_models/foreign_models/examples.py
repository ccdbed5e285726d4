"""The examples on which the published numbers were taken, drawn again from their seeds."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

NONE = 10  # first unique: the start token, and the answer "there is none"
COPY, COPIES, LONG = 16, 3, 85  # repeated subsequences: tokens of a copy, copies, tokens of a text
OPEN, CLOSE, START, PAD, END = 3, 4, 0, 1, 2  # brackets
TOWERS = tuple(range(2, 38, 2))  # sizes of the first of two towers


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


def first_unique(n: int, seed: int) -> Examples:
    """10, then 19 letters below 10; label: the first letter that has occurred once so far, or 10.

    Source: ARENA, monthly problem of August 2023.
    """
    letters = TorchDraws(seed).integers(0, NONE, (n, 19))
    labels = np.full((n, 20), NONE)
    for i in range(1, 20):
        seen = letters[:, :i]
        once = (seen[:, :, None] == seen[:, None, :]).sum(axis=2) == 1
        first = seen[np.arange(n), once.argmax(axis=1)]
        labels[:, i] = np.where(once.any(axis=1), first, NONE)
    return Examples(np.pad(letters, ((0, 0), (1, 0)), constant_values=NONE), labels)


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


def tower(i: int, n: int = 40) -> np.ndarray:
    """``A)(B`` with A and B towers of i and ``n - 2 - i`` brackets, between start and end.

    Source: ARENA 1.4, adversarial examples of the bracket classifier.
    """
    rise = {k: [OPEN] * (k // 2) + [CLOSE] * (k // 2) for k in (i, n - 2 - i)}
    return np.array([START, *rise[i], CLOSE, OPEN, *rise[n - 2 - i], END])


class Copies(NamedTuple):
    """Texts with a subsequence that occurs three times, and where the copies start."""

    tokens: np.ndarray
    starts: np.ndarray

    @property
    def marked(self) -> np.ndarray:
        """The positions whose next token the loss counts: 15 in copies 1 and 2."""
        at = np.arange(LONG)
        inside = (at >= self.starts[:, 1:, None]) & (at < self.starts[:, 1:, None] + COPY - 1)
        return np.asarray(inside.any(axis=1))


def batches(seed: int, size: int) -> Iterator[Copies]:
    """One endless stream of batches from NumPy's global generator, as the notebook draws them.

    Source: progress-measures notebook "Non-Modular Addition Grokking Tasks", "Induction Heads".
    """
    draws, block = np.random.RandomState(seed), (LONG - 1) // COPIES
    while True:
        tokens = draws.randint(1, 128, (size, LONG))
        tokens[:, 0] = 0
        starts = np.stack(
            [
                draws.randint(1 + block * i, 1 + block * (i + 1) - (COPY - 1), size)
                for i in range(COPIES)
            ],
            axis=1,
        )
        rows = np.arange(size)[:, None]
        first = tokens[rows, starts[:, :1] + np.arange(COPY)]
        for i in range(1, COPIES):
            tokens[rows, starts[:, i : i + 1] + np.arange(COPY)] = first
        yield Copies(tokens, starts)


def one_batch(seed: int, size: int) -> Copies:
    """The first batch of a stream."""
    return next(batches(seed, size))
