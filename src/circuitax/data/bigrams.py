"""The bigram table of a text: counts of adjacent tokens, and their smoothed probabilities."""

import numpy as np
from jaxtyping import Float, Int, Integer

_BLOCK = 1 << 22


def bigram_counts(tokens: Integer[np.ndarray, " n_tokens"], d_vocab: int) -> Int[np.ndarray, "v v"]:
    """Bigram counts ``counts[a, b]`` of token b after token a, over the whole text."""
    n = len(tokens)
    if n < 2:
        raise ValueError(f"tokens has {n} entries, must have at least 2")
    counts = np.zeros(d_vocab * d_vocab, np.int64)
    for start in range(0, n - 1, _BLOCK):
        block = np.asarray(tokens[start : start + _BLOCK + 1], np.int64)
        if not 0 <= block.min() <= block.max() < d_vocab:
            raise ValueError(f"tokens has ids up to {block.max()}, must be in [0, {d_vocab})")
        counts += np.bincount(block[:-1] * d_vocab + block[1:], minlength=d_vocab * d_vocab)
    return counts.reshape(d_vocab, d_vocab)


def smoothed_bigrams(
    counts: Int[np.ndarray, "v v"], strength: float = 1.0
) -> Float[np.ndarray, "v v"]:
    """``P(b | a) = (counts[a, b] + k u_b) / (counts[a] + k)``, u the smoothed unigram frequencies.

    The mean under a Dirichlet prior of strength k around the unigram, ``u_b = (n_b + 1)/(N + V)``:
    a row that was never seen is the unigram, and every entry is positive.
    """
    if not strength > 0:
        raise ValueError(f"strength={strength} must be positive")
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
