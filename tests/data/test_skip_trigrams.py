import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.data.skip_trigrams import (
    SkipTrigrams,
    next_log_probs,
    random_language,
    sample_skip_trigrams,
)

KEY = jax.random.key(2)
D_VOCAB, N_SOURCES = 6, 2


def test_table_by_hand() -> None:
    # Two ordinary tokens (1, 2) and one source (0), which lends token 2 a logit of ln 3 after 1.
    bigram = jnp.where(jnp.arange(3)[None, :] < 1, -jnp.inf, jnp.zeros((3, 3)))
    skip = jnp.zeros((1, 3, 3)).at[0, 1, 2].set(jnp.log(3.0))
    probs = np.exp(next_log_probs(SkipTrigrams(bigram, skip)))
    np.testing.assert_allclose(probs[0, 1], [0, 0.25, 0.75], atol=1e-6)
    np.testing.assert_allclose(probs[0, 2], [0, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(probs[1], np.tile([0, 0.5, 0.5], (3, 1)), atol=1e-6)


def test_counts_recover_the_tables() -> None:
    # All 3 * 6 rows of the table by chi-square at one fixed key, each at 1e-5: a correct sampler
    # fails with probability below 2e-4.
    language = random_language(KEY, D_VOCAB, N_SOURCES, density=0.4)
    sample = sample_skip_trigrams(KEY, language, 20000, 10)
    tokens, source, place = (np.asarray(x) for x in sample)
    counts = np.zeros((N_SOURCES + 1, D_VOCAB, D_VOCAB))
    for i in range(9):
        table = np.where(place <= i, source, N_SOURCES)
        drawn = place != i + 1  # the source itself is placed, not drawn
        np.add.at(counts, (table[drawn], tokens[drawn, i], tokens[drawn, i + 1]), 1)
    assert counts[..., :N_SOURCES].sum() == 0
    expected = np.exp(next_log_probs(language))
    tested = 0
    for s, current in np.ndindex(N_SOURCES + 1, D_VOCAB):
        if (n := counts[s, current].sum()) > 0:
            p = expected[s, current, N_SOURCES:].astype(float)
            observed = counts[s, current, N_SOURCES:]
            assert stats.chisquare(observed, n * p / p.sum()).pvalue > 1e-5, (s, current)
            tested += 1
    # A source is current only once passed, and only its own table is then in force.
    assert tested == (N_SOURCES + 1) * (D_VOCAB - N_SOURCES) + N_SOURCES


def test_one_source_at_its_place() -> None:
    language = random_language(KEY, D_VOCAB, N_SOURCES)
    sample = sample_skip_trigrams(KEY, language, 3000, 8)
    is_source = np.asarray(sample.tokens) < N_SOURCES
    assert (is_source.sum(1) == 1).all()
    np.testing.assert_array_equal(is_source.argmax(1), sample.place)
    np.testing.assert_array_equal(sample.tokens[np.arange(3000), sample.place], sample.source)
    assert stats.chisquare(np.bincount(np.asarray(sample.place), minlength=7)).pvalue > 1e-4
    again = sample_skip_trigrams(KEY, language, 3000, 8)
    np.testing.assert_array_equal(sample.tokens, again.tokens)


def test_density_and_strength() -> None:
    language = random_language(KEY, 40, 10, skip_logit=2.5, density=0.3)
    skip = np.asarray(language.skip)
    assert set(np.unique(skip)) == {0.0, 2.5}
    assert (skip[:, :, :10] == 0).all()
    share = (skip[:, :, 10:] > 0).mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.3 * 0.7 / (10 * 40 * 30))


def test_impossible_arguments() -> None:
    with pytest.raises(ValueError, match="n_sources=5 must be between 1 and d_vocab - 2=4"):
        random_language(KEY, 6, 5)
    with pytest.raises(ValueError, match=r"density=1\.5"):
        random_language(KEY, 6, 2, density=1.5)
    language = random_language(KEY, 6, 2)
    with pytest.raises(ValueError, match="batch=0"):
        sample_skip_trigrams(KEY, language, 0, 5)
    with pytest.raises(ValueError, match="length=1"):
        sample_skip_trigrams(KEY, language, 2, 1)
