"""Tables of frequencies against dictionaries that follow the formula."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest

from circuitax.data.tables import (
    bigram_counts,
    cross_entropy,
    kneser_ney,
    kneser_ney_bigrams,
    mean_divergence,
    smoothed_bigrams,
    table_losses,
    trigram_losses,
)


def test_counts_by_hand() -> None:
    counts = bigram_counts(np.array([0, 1, 0, 1, 2], np.uint16), 3)
    np.testing.assert_array_equal(counts, [[0, 2, 0], [1, 0, 1], [0, 0, 0]])


def test_blocks_do_not_lose_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.random.default_rng(0).integers(0, 7, 1000)
    whole = bigram_counts(tokens, 7)
    monkeypatch.setattr("circuitax.data.tables._BLOCK", 13)
    np.testing.assert_array_equal(bigram_counts(tokens, 7), whole)
    assert whole.sum() == 999


def test_smoothing_by_hand() -> None:
    counts = np.array([[0, 2], [0, 0]])
    # Unigram of successors: (0 + 1) / 4 and (2 + 1) / 4.
    np.testing.assert_allclose(smoothed_bigrams(counts, 2.0), [[0.125, 0.875], [0.25, 0.75]])


def test_smoothed_rows_are_distributions_that_follow_the_counts() -> None:
    counts = np.random.default_rng(1).integers(0, 5, (6, 6)) * 10_000
    probs = smoothed_bigrams(counts)
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    assert (probs > 0).all()
    np.testing.assert_allclose(probs, counts / counts.sum(axis=1, keepdims=True), atol=1e-4)


def test_cross_entropy_and_divergence_by_hand() -> None:
    counts = np.array([[3, 1], [0, 0]])
    model = np.array([[0.5, 0.5], [0.9, 0.1]])
    assert cross_entropy(counts, np.log(model)) == pytest.approx(np.log(2))
    truth = np.array([[0.75, 0.25], [0.5, 0.5]])
    kl = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    assert mean_divergence(truth, np.log(model), np.array([1.0, 0.0])) == pytest.approx(kl)
    assert mean_divergence(model, np.log(model), np.ones(2)) == 0


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


TRAIN = np.random.default_rng(0).integers(0, 5, 400)
WINDOWS = np.array([[0, 3, 1, 4], [2, 2, 0, 1]])


def test_every_token_but_the_first_counts() -> None:
    counts = bigram_counts(TRAIN, 5)
    pairs = [(0, 3), (3, 1), (1, 4), (2, 2), (2, 0), (0, 1)]
    unigram = np.array([(TRAIN[1:] == token).sum() + 1.0 for token in range(5)])
    table = kneser_ney_bigrams(counts)
    found = table_losses(counts, WINDOWS)
    wanted = np.mean([-np.log(unigram[b] / unigram.sum()) for _, b in pairs])
    assert found["unigram_loss"] == pytest.approx(wanted, rel=1e-12)
    wanted = np.mean([-np.log(table[a, b]) for a, b in pairs])
    assert found["bigram_loss"] == pytest.approx(wanted, rel=1e-12)
