"""Words that a tokenizer splits in two, and how often they occur."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Integer


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
    begins = np.array([name[:1] == " " and name[1:].isalpha() for name in names])
    goes_on = np.array([name.isalpha() for name in names])
    words = np.where(begins[:, None] & goes_on[None, :], counts, 0)
    first = words.argmax(axis=0)
    often = words.max(axis=0)
    second = np.argsort(-often, kind="stable")[: min(n_words, int((often > 0).sum()))]
    return first[second], second
