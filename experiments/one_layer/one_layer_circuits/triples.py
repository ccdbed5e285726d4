"""Skip-trigrams of a text: a source, a later destination, and the next token."""

import numpy as np
from jaxtyping import Bool, Int, Integer

from circuitax.kernel.checks import check_range

MOST_TOKENS = 1024  # then the table has about a gigabyte


def most_frequent(
    tokens: Integer[np.ndarray, " n_tokens"], d_vocab: int, n: int
) -> Int[np.ndarray, " n"]:
    """The n most frequent tokens, most frequent first, ties by number."""
    counts = np.bincount(tokens, minlength=d_vocab)
    return np.argsort(-counts, kind="stable")[:n]


def seen_triples(
    tokens: Integer[np.ndarray, " n_tokens"], chosen: Int[np.ndarray, " n"], reach: int
) -> Bool[np.ndarray, "source dest out"]:
    """Whether each triple of chosen tokens occurs: source … destination, out.

    ``out`` directly follows the destination, and the source is 1 to ``reach`` tokens before the
    destination. Boundaries of documents are ignored, as in windows of the text.

    Args:
        tokens: The text.
        chosen: Different tokens, at most 1,024; the axes of the result are in their order.
        reach: Farthest source, at least 1: ``n_ctx - 2`` for a window that also predicts ``out``.

    Raises:
        ValueError: If ``reach`` is less than 1 or there are more than 1,024 tokens.
    """
    check_range("reach", reach, "[1, inf)")
    n = len(chosen)
    if n > MOST_TOKENS:
        raise ValueError(f"chosen holds {n} tokens, must hold at most {MOST_TOKENS}")
    text = np.asarray(tokens)
    place = np.full(max(int(text.max(initial=0)), int(chosen.max(initial=0))) + 1, -1, np.int32)
    place[chosen] = np.arange(n)
    at = place[text]
    pair = np.where((at[:-1] >= 0) & (at[1:] >= 0), at[:-1] * n + at[1:], -1)
    seen = np.zeros(n**3, bool)
    for back in range(1, min(reach, len(pair) - 1) + 1):
        source, here = at[: len(pair) - back], pair[back:]
        fits = (source >= 0) & (here >= 0)
        seen[source[fits] * np.int32(n * n) + here[fits]] = True
    return seen.reshape(n, n, n)
