"""Kneser–Ney: against dictionaries that follow the formula, and as a probability."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from circuitax.data.tables import (
    bigram_counts,
    kneser_ney,
    kneser_ney_bigrams,
    smoothed_bigrams,
    trigram_losses,
)

V = 6


def text(n: int = 400, seed: int = 0) -> np.ndarray:
    """A text whose next token depends on the two before it; token 5 never occurs."""
    rng = np.random.default_rng(seed)
    ids = [0, 1]
    for _ in range(n):
        ids.append((ids[-2] + 2 * ids[-1]) % 4 if rng.random() < 0.8 else int(rng.integers(5)))
    return np.array(ids, np.uint16)


def by_hand(ids: list[int], a: int | None, b: int, c: int) -> float:
    """The formula of `kneser_ney` with dictionaries; without ``a`` the lower order."""
    triples = Counter(zip(ids, ids[1:], ids[2:], strict=False))
    before = Counter((y, z) for _, y, z in triples)
    ends = Counter(z for _, z in before)

    def discount(counts: Counter) -> float:
        sizes = Counter(counts.values())
        return sizes[1] / (sizes[1] + 2 * sizes[2]) if sizes[1] and sizes[2] else 0.5

    d1, d2, d3 = discount(ends), discount(before), discount(triples)
    total = sum(ends.values())
    p = max(ends[c] - d1, 0) / total + d1 * len(ends) / total / V
    rows: dict = defaultdict(Counter)
    for (y, z), count in before.items():
        rows[y][z] = count
    if rows[b]:
        total = sum(rows[b].values())
        p = max(rows[b][c] - d2, 0) / total + d2 * len(rows[b]) / total * p
    row = Counter({z: n for (x, y, z), n in triples.items() if (x, y) == (a, b)})
    if row:
        total = sum(row.values())
        p = max(row[c] - d3, 0) / total + d3 * len(row) / total * p
    return float(p)


def test_losses_are_those_of_the_formula() -> None:
    ids, rng = text(), np.random.default_rng(1)
    windows = rng.integers(0, V, (40, 5))  # also contexts and tokens that the text never has
    losses = trigram_losses(kneser_ney(ids, V), windows)
    known = ids.tolist()
    for window, row in zip(windows.tolist(), losses, strict=True):
        expected = [by_hand(known, None, window[0], window[1])]
        expected += [
            by_hand(known, *three) for three in zip(window, window[1:], window[2:], strict=False)
        ]
        np.testing.assert_allclose(np.exp(-row), expected, rtol=1e-12)


def test_a_table_of_pairs_follows_the_formula_with_one_token_of_context_less() -> None:
    ids = text().tolist()
    pairs = Counter(pairwise(ids))
    ends = Counter(b for _, b in pairs)

    def discount(counts: Counter) -> float:
        sizes = Counter(counts.values())
        return sizes[1] / (sizes[1] + 2 * sizes[2]) if sizes[1] and sizes[2] else 0.5

    expected = np.empty((V, V))
    for b in range(V):
        total = sum(ends.values())
        p = max(ends[b] - discount(ends), 0) / total + discount(ends) * len(ends) / total / V
        for a in range(V):
            row = Counter({z: n for (x, z), n in pairs.items() if x == a})
            d, seen = discount(pairs), sum(row.values())
            expected[a, b] = max(row[b] - d, 0) / seen + d * len(row) / seen * p if row else p
    found = kneser_ney_bigrams(bigram_counts(np.array(ids), V))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert found.min() > 0


def test_probabilities_of_all_next_tokens_sum_to_one() -> None:
    table = kneser_ney(text(), V)
    windows = np.array([[a, b, c] for a in range(V) for b in range(V) for c in range(V)])
    probs = np.exp(-trigram_losses(table, windows)).reshape(V, V, V, 2)
    np.testing.assert_allclose(probs[..., 1].sum(axis=2), 1, rtol=1e-12)
    np.testing.assert_allclose(table.lower.sum(axis=1), 1, rtol=1e-12)
    assert probs[..., 1].min() > 0


def test_two_tokens_of_context_say_more_than_one() -> None:
    train, windows = text(4000), text(2000, seed=1)[2:].reshape(-1, 20)
    one = -np.log(smoothed_bigrams(bigram_counts(train, V)))[windows[:, :-1], windows[:, 1:]]
    two = trigram_losses(kneser_ney(train, V), windows)
    assert two[:, 1:].mean() < 0.7 * one[:, 1:].mean()
    # The second token of a window has one token before it: no better than a table of pairs.
    assert two[:, 0].mean() > one[:, 0].mean() - 0.05


def test_texts_that_are_no_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="tokens has 2 entries, must have at least 3"):
        kneser_ney(np.array([0, 1]), V)
    with pytest.raises(ValueError, match=r"ids up to 6, must be in \[0, 6\)"):
        kneser_ney(np.array([0, 1, 6]), V)
