import numpy as np
import pytest

from circuitax.data.tables import bigram_counts, cross_entropy, mean_divergence, smoothed_bigrams


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


def test_gibbs_inequality_links_the_two() -> None:
    counts = np.random.default_rng(2).integers(1, 50, (5, 5))
    probs = counts / counts.sum(axis=1, keepdims=True)
    model = smoothed_bigrams(np.random.default_rng(3).integers(1, 50, (5, 5)))
    gap = cross_entropy(counts, np.log(model)) - cross_entropy(counts, np.log(probs))
    weight = counts.sum(axis=1).astype(float)
    assert gap == pytest.approx(mean_divergence(probs, np.log(model), weight), rel=1e-10)


def test_impossible_arguments() -> None:
    with pytest.raises(ValueError, match="tokens has 1 entries"):
        bigram_counts(np.array([0]), 3)
    with pytest.raises(ValueError, match="ids up to 3"):
        bigram_counts(np.array([0, 3]), 3)
    with pytest.raises(ValueError, match="strength=0"):
        smoothed_bigrams(np.ones((2, 2), int), 0.0)
