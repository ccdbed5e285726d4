"""Losses of tables of frequencies, counted by hand."""

import numpy as np
import pytest

from circuitax.data.tables import (
    bigram_counts,
    kneser_ney,
    kneser_ney_bigrams,
    table_losses,
    trigram_loss,
    trigram_losses,
)

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


def test_the_trigram_loss_is_the_mean_over_all_windows() -> None:
    each = trigram_losses(kneser_ney(TRAIN, 5), WINDOWS)
    assert trigram_loss(TRAIN, 5, WINDOWS) == pytest.approx(each.sum() / 6, rel=1e-12)
