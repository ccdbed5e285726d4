from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy import stats

from circuitax.data.in_context_bigrams import (
    BigramSample,
    is_known,
    random_bigrams,
    sample_in_context_bigrams,
)

KEY = jax.random.key(4)


@pytest.mark.parametrize("fixed", [False, True])
def test_triggers_give_their_output_and_the_rest_the_table(fixed: bool) -> None:
    # Six chi-square tests at one fixed key, 1e-5 each.
    table = random_bigrams(KEY, 6)
    sample = sample_in_context_bigrams(KEY, table, 4000, 12, n_triggers=2, fixed_triggers=fixed)
    tokens, triggers, outputs = (np.asarray(x) for x in sample)
    counts = np.zeros((6, 6))
    for row, t, o in zip(tokens, triggers, outputs, strict=True):
        said = dict(zip(t, o, strict=True))
        assert len(said) == 2
        for current, following in pairwise(row):
            if current in said:
                assert following == said[current]
            else:
                counts[current, following] += 1
    if fixed:
        assert (np.sort(triggers, axis=1) == np.arange(2)[None, :]).all()
    for current in range(2 if fixed else 0, 6):
        p = np.exp(np.asarray(table[current], float))
        n = counts[current].sum()
        assert stats.chisquare(counts[current], n * p / p.sum()).pvalue > 1e-5


def test_outputs_are_uniform() -> None:
    sample = sample_in_context_bigrams(KEY, random_bigrams(KEY, 5), 5000, 3, n_triggers=2)
    pair = np.asarray(sample.outputs[:, 0] * 5 + sample.outputs[:, 1])
    assert stats.chisquare(np.bincount(pair, minlength=25)).pvalue > 1e-4


def test_known_at_the_second_sight_of_a_trigger() -> None:
    sample = BigramSample(np.array([[3, 1, 2, 3, 1, 3, 0]]), np.array([[3, 0]]), np.array([[1, 2]]))
    sample = jax.tree.map(jax.numpy.asarray, sample)
    np.testing.assert_array_equal(is_known(sample), np.array([[0, 0, 0, 1, 0, 1, 0]], bool))


def test_batch_is_a_function_of_the_key() -> None:
    table = random_bigrams(KEY, 5)
    draws = [
        np.asarray(sample_in_context_bigrams(k, table, 3, 8, n_triggers=1).tokens)
        for k in (KEY, KEY, jax.random.key(9))
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch=0"),
        ({"length": 1}, "length=1"),
        ({"n_triggers": 6}, "n_triggers=6 must be between 1 and d_vocab=5"),
    ],
)
def test_impossible_arguments(change: dict[str, int], message: str) -> None:
    arguments = {"batch": 2, "length": 6, "n_triggers": 1} | change
    with pytest.raises(ValueError, match=message):
        sample_in_context_bigrams(KEY, random_bigrams(KEY, 5), **arguments)
    with pytest.raises(ValueError, match="d_vocab=1"):
        random_bigrams(KEY, 1)
