"""Losses of tables of frequencies: baselines for models of text."""

import numpy as np
from jaxtyping import Integer

from circuitax.data.bigrams import cross_entropy
from circuitax.data.kneser_ney import kneser_ney, kneser_ney_bigrams, trigram_losses


def table_losses(
    counts: Integer[np.ndarray, "v v"], windows: Integer[np.ndarray, "window n_ctx"]
) -> dict[str, float]:
    """``unigram_loss`` and ``bigram_loss``: mean over all tokens of a window but the first, nats.
    """
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
