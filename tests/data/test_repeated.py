import jax
import numpy as np
import pytest
from scipy import stats

from circuitax.data.synthetic import RepeatedSource, repeated_tokens, sample_repeated
from circuitax.kernel.keys import at_index

KEY = jax.random.key(11)


@pytest.mark.parametrize("distinct", [False, True])
def test_every_sequence_has_its_period(distinct: bool) -> None:
    sample = sample_repeated(KEY, 200, 20, 12, min_period=3, max_period=10, distinct=distinct)
    tokens = np.asarray(sample.tokens)
    for row, period in zip(tokens, np.asarray(sample.period), strict=True):
        np.testing.assert_array_equal(row[period:], row[:-period])
        if distinct:
            assert len(set(row[:period])) == period
    assert (tokens.min(), tokens.max()) == (0, 11)


def test_periods_and_symbols_are_uniform() -> None:
    # One fixed key; a correct sampler fails one of the two with probability 2e-4.
    sample = sample_repeated(KEY, 8000, 12, 7, min_period=2, max_period=9)
    periods = np.bincount(np.asarray(sample.period), minlength=10)[2:]
    assert stats.chisquare(periods).pvalue > 1e-4
    first_two = np.asarray(sample.tokens[:, :2])  # within the shortest period: independent
    pairs = np.bincount(first_two[:, 0] * 7 + first_two[:, 1], minlength=49)
    assert stats.chisquare(pairs).pvalue > 1e-4


def test_batch_is_a_function_of_the_key() -> None:
    def draw(step: int) -> np.ndarray:
        key = at_index(KEY, step)
        return np.asarray(sample_repeated(key, 4, 10, 9, min_period=2, max_period=5).tokens)

    np.testing.assert_array_equal(draw(3), draw(3))
    assert not np.array_equal(draw(3), draw(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch=0"),
        ({"d_vocab": 1}, "d_vocab=1"),
        ({"min_period": 0}, "min_period=0"),
        ({"min_period": 6}, "min_period=6 and max_period=5"),
        ({"max_period": 10}, "< length=10"),
        ({"d_vocab": 4, "distinct": True}, "max_period=5 must be at most d_vocab=4"),
    ],
)
def test_impossible_sizes(change: dict[str, int], message: str) -> None:
    sizes = {"batch": 2, "length": 10, "d_vocab": 9, "min_period": 2, "max_period": 5} | change
    with pytest.raises(ValueError, match=message):
        sample_repeated(KEY, **sizes)


def test_source_is_the_sampler_with_its_sizes() -> None:
    source = RepeatedSource(batch=3, length=9, d_vocab=8, min_period=2, max_period=4, distinct=True)
    sample = sample_repeated(KEY, 3, 9, 8, min_period=2, max_period=4, distinct=True)
    np.testing.assert_array_equal(source(KEY), sample.tokens)
    np.testing.assert_array_equal(source.sample(KEY).period, sample.period)
    with pytest.raises(ValueError, match="max_period=16"):
        RepeatedSource(length=12)


def test_texts_for_induction_scores_repeat_distinct_tokens() -> None:
    texts = np.asarray(repeated_tokens(KEY, 60, 12, 9))
    periods = []
    for text in texts:
        fits = [p for p in range(1, 12) if (text[p:] == text[:-p]).all()]
        periods.append(fits[0])
        assert len(set(text[: fits[0]])) == fits[0]
    assert set(periods) == {3, 4, 5, 6}
    assert repeated_tokens(KEY, 2, 30, 5).max() < 5
    with pytest.raises(ValueError, match="length=1 must be at least 2"):
        repeated_tokens(KEY, 2, 1, 5)
