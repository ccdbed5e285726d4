"""Words of a tokenizer: single-token words, and words split in two."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Integer


def split_words(
    names: Sequence[str], counts: Integer[np.ndarray, "v v"], n_words: int
) -> tuple[np.ndarray, np.ndarray]:
    """The most frequent pairs of tokens that are one word: a space and letters, then letters.

    Each second piece stands for one word only, the most frequent one that ends with it.

    Args:
        names: The text of every token.
        counts: How often token b follows token a, ``counts[a, b]``.
        n_words: Most pairs returned, at least 1.

    Returns:
        Ids of the first pieces and of the second pieces, the most frequent word first; fewer where
        fewer words are split in two.
    """
    begins, goes_on = _pieces(names)
    words = np.where(begins[:, None] & goes_on[None, :], counts, 0)
    first = words.argmax(axis=0)
    often = words.max(axis=0)
    second = np.argsort(-often, kind="stable")[: min(n_words, int((often > 0).sum()))]
    return first[second], second


def whole_words(
    names: Sequence[str], counts: Integer[np.ndarray, "v v"], n_words: int
) -> Integer[np.ndarray, " words"]:
    """The most frequent tokens that are a word: a space and letters, which mostly end there.

    A word ends where the next token does not begin with a letter; ``" con"``, which nearly always
    goes on, is a piece of words.

    Args:
        names: The text of every token.
        counts: How often token b follows token a, ``counts[a, b]``.
        n_words: Most tokens returned, at least 1.

    Returns:
        Their ids, the most frequent first; fewer where fewer tokens are words.
    """
    begins, _ = _pieces(names)
    ends = np.array([not name[:1].isalpha() for name in names])
    often = counts.sum(axis=1)
    words = begins & (often > 0) & (2 * counts[:, ends].sum(axis=1) >= often)
    return np.argsort(-np.where(words, often, 0), kind="stable")[: min(n_words, int(words.sum()))]


def _pieces(names: Sequence[str]) -> tuple[Bool[np.ndarray, " v"], Bool[np.ndarray, " v"]]:
    """Tokens that begin a word, and tokens that can continue one."""
    begins = np.array([name[:1] == " " and name[1:].isalpha() for name in names])
    return begins, np.array([name.isalpha() for name in names])
