"""Tables of tokens after tokens: counts, Kneser-Ney probabilities, and their losses."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer

_BLOCK = 1 << 22


def bigram_counts(tokens: Integer[np.ndarray, " n_tokens"], d_vocab: int) -> Int[np.ndarray, "v v"]:
    """Bigram counts ``counts[a, b]`` of token b after token a, over the whole text."""
    n = len(tokens)
    counts = np.zeros(d_vocab * d_vocab, np.int64)
    for start in range(0, n - 1, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK + 1], np.int64)
        counts += np.bincount(block[:-1] * d_vocab + block[1:], minlength=d_vocab * d_vocab)
    return counts.reshape(d_vocab, d_vocab)


def smoothed_bigrams(
    counts: Int[np.ndarray, "v v"], strength: float = 1.0
) -> Float[np.ndarray, "v v"]:
    """``P(b | a) = (counts[a, b] + k u_b) / (counts[a] + k)``, u the smoothed unigram frequencies.

    The mean under a Dirichlet prior of strength k around the unigram, ``u_b = (n_b + 1)/(N + V)``:
    a row that was never seen is the unigram, and every entry is positive.
    """
    following = counts.sum(axis=0)
    unigram = (following + 1) / (following.sum() + len(following))
    rows = counts.sum(axis=1, keepdims=True)
    return (counts + strength * unigram[None, :]) / (rows + strength)


def cross_entropy(counts: Int[np.ndarray, "v v"], log_probs: Float[np.ndarray, "v v"]) -> float:
    """Mean of ``-log P(b | a)`` over the pairs counted, nats; pairs of count 0 are ignored."""
    seen = counts > 0
    return float(-(counts[seen] * log_probs[seen]).sum() / counts.sum())


def mean_divergence(
    probs: Float[np.ndarray, "v v"],
    log_model: Float[np.ndarray, "v v"],
    weight: Float[np.ndarray, " v"],
) -> float:
    """``Σ_a w_a KL(P(. | a) || Q(. | a)) / Σ_a w_a``, nats."""
    rows = (probs * (np.log(probs) - log_model)).sum(axis=1)
    return float(rows @ weight / weight.sum())


class Trigrams(NamedTuple):
    """Interpolated Kneser–Ney trigrams, with one discount for each order; from `kneser_ney`.

    Attributes:
        lower: ``P(c | b)`` from continuation counts, ``[b, c]``.
        triples: ``(a V + b) V + c`` of every trigram seen, increasing.
        counts: How often each was seen.
        pairs: ``a V + b`` of every context seen, increasing.
        totals: How often each context was seen.
        kinds: How many different tokens followed it.
        discount: D of the trigrams, in (0, 1).
    """

    lower: Float[np.ndarray, "v v"]
    triples: Int[np.ndarray, " triple"]
    counts: Int[np.ndarray, " triple"]
    pairs: Int[np.ndarray, " pair"]
    totals: Int[np.ndarray, " pair"]
    kinds: Int[np.ndarray, " pair"]
    discount: float


def kneser_ney(tokens: Integer[np.ndarray, " n_tokens"], d_vocab: int) -> Trigrams:
    """The table of a text.

    ``P(c | a b) = max(n(abc) - D, 0) / n(ab·) + D N(ab·) / n(ab·) P(c | b)``, where n counts
    occurrences and N different tokens. ``P(c | b)`` has the same form with N(·bc), in how many
    contexts bc was seen, in place of n(abc), and ends in a discounted N(··c) over a uniform floor.
    The discount of an order is ``n_1 / (n_1 + 2 n_2)``, from how many of its counts are 1 and 2.

    Source: Kneser and Ney (1995); Chen and Goodman (1998), section 2.7, interpolated.
    """
    ids = np.asarray(tokens, np.int64)
    triples, counts = np.unique(
        (ids[:-2] * d_vocab + ids[1:-1]) * d_vocab + ids[2:], return_counts=True
    )
    pairs, first, kinds = np.unique(triples // d_vocab, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    # In how many contexts each pair was seen, N(·bc).
    before = np.bincount(triples % d_vocab**2, minlength=d_vocab**2).reshape(d_vocab, d_vocab)
    lower = _interpolated(before, _unigram(before))
    return Trigrams(lower, triples, counts, pairs, totals, kinds, _discount(counts))


def kneser_ney_bigrams(counts: Integer[np.ndarray, "v v"]) -> Float[np.ndarray, "v v"]:
    """``P(b | a)`` of the pairs of a text, by `kneser_ney` with one token of context less.

    ``P(b | a) = max(n(ab) - D, 0) / n(a·) + D N(a·) / n(a·) P(b)``, where ``P(b)`` is from N(·b),
    after how many different tokens b was seen. Every entry is positive.
    """
    whole = np.asarray(counts, np.int64)
    return _interpolated(whole, _unigram(whole))


def trigram_losses(
    table: Trigrams, windows: Integer[np.ndarray, "window n_ctx"]
) -> Float[np.ndarray, "window n_ctx-1"]:
    """``-log P`` of all tokens but the first of a window, nats; entry t is that of token t + 1."""
    ids, d_vocab = np.asarray(windows, np.int64), len(table.lower)
    probs = table.lower[ids[:, :-1], ids[:, 1:]]
    pair = ids[:, :-2] * d_vocab + ids[:, 1:-1]
    count = _looked_up(table.triples, table.counts, pair * d_vocab + ids[:, 2:])
    total = _looked_up(table.pairs, table.totals, pair)
    kinds = _looked_up(table.pairs, table.kinds, pair)
    taken = np.maximum(count - table.discount, 0) + table.discount * kinds * probs[:, 1:]
    # A context that was never seen says nothing: what one token of context says stands.
    probs[:, 1:] = np.where(total > 0, taken / np.maximum(total, 1), probs[:, 1:])
    return np.asarray(-np.log(probs))


def _interpolated(counts: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Rows of discounted counts, with the discounted mass spread according to ``lower``."""
    discount = _discount(counts[counts > 0])
    total = counts.sum(axis=-1, keepdims=True)
    freed = discount * (counts > 0).sum(axis=-1, keepdims=True)
    spread = (np.maximum(counts - discount, 0) + freed * lower) / np.maximum(total, 1)
    return np.asarray(np.where(total > 0, spread, lower))


def _unigram(before: np.ndarray) -> np.ndarray:
    # N(··c): after how many different tokens c was seen.
    kinds = (before > 0).sum(axis=0)
    return _interpolated(kinds, np.full(len(kinds), 1 / len(kinds)))


def _discount(counts: np.ndarray) -> float:
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    # Without single occurrences the estimate is 0 or undefined, and an unseen token impossible.
    return once / (once + 2 * twice) if once and twice else 0.5


def _looked_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The value of each requested key, 0 where it is absent; ``keys`` increase."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


def table_losses(
    counts: Integer[np.ndarray, "v v"], windows: Integer[np.ndarray, "window n_ctx"]
) -> dict[str, float]:
    """``unigram_loss`` and ``bigram_loss``: means over all tokens of a window but the first."""
    train, ids = np.asarray(counts).astype(np.int64), np.asarray(windows)
    pairs = np.zeros(train.shape, np.int64)
    np.add.at(pairs, (ids[:, :-1], ids[:, 1:]), 1)
    unigram = train.sum(axis=0) + 1.0
    unigrams = np.broadcast_to(unigram / unigram.sum(), train.shape)
    return {
        "unigram_loss": cross_entropy(pairs, np.log(unigrams)),
        "bigram_loss": cross_entropy(pairs, np.log(kneser_ney_bigrams(train))),
    }


def trigram_loss(
    tokens: Integer[np.ndarray, " n_tokens"],
    d_vocab: int,
    windows: Integer[np.ndarray, "window n_ctx"],
) -> float:
    """The mean loss of the Kneser-Ney table of a training part, nats."""
    return float(trigram_losses(kneser_ney(tokens, d_vocab), np.asarray(windows)).mean())
