"""Prompts whose next token stood behind the present one before: random tokens, and real prose."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

RANDOM, PROSE = ("random tokens", "prose")
FIRST_ID, END_ID = 1000, 20_000  # the random ids of `real_induction`
_WORD = re.compile(r" [A-Za-z]{4,}")


class Prompt(NamedTuple):
    """Ids, and the token that came after the last one before."""

    kind: str
    ids: np.ndarray
    right: int


def random_prompts(lengths: Iterable[int], d_vocab: int, rng: np.random.Generator) -> list[Prompt]:
    """Random tokens twice, the second copy without its last token; lengths are odd."""
    ends = (FIRST_ID, END_ID) if d_vocab >= END_ID else (0, d_vocab)
    copies = [rng.integers(*ends, size=(length + 1) // 2) for length in lengths]
    return [Prompt(RANDOM, np.concatenate([c, c[:-1]]), int(c[-1])) for c in copies]


def prose_prompts(
    lengths: Iterable[int],
    texts: Iterator[np.ndarray],
    is_word: Callable[[int], bool],
    rng: np.random.Generator,
) -> list[Prompt]:
    """Stretches of text before a word that followed the same token earlier, one from each text.

    Each text is searched from a random place on; a text without such a stretch is passed over.
    """
    found: list[Prompt] = []
    for length in lengths:
        for ids in texts:
            end = _repeat(ids, length, is_word, rng)
            if end is not None:
                found.append(Prompt(PROSE, ids[end - length : end], int(ids[end])))
                break
        else:
            raise ValueError(f"texts must hold more repeated words: {len(found)} prompts found")
    return found


def is_long_word(text: str) -> bool:
    """Whether a token is the start of a word, of four letters or more."""
    return _WORD.fullmatch(text) is not None


def _repeat(
    ids: np.ndarray, length: int, is_word: Callable[[int], bool], rng: np.random.Generator
) -> int | None:
    """The first place, from a random one on, whose token and the one before it came before."""
    if len(ids) <= length:
        return None
    for end in range(int(rng.integers(length, len(ids))), len(ids)):
        window, right = ids[end - length : end], ids[end]
        earlier = (window[:-2] == window[-1]) & (window[1:-1] == right)
        if earlier.any() and right != window[-1] and is_word(int(right)):
            return end
    return None
