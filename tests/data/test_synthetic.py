"""Repeated random sequences and chained maps follow their law."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.data.synthetic import (
    OTHER,
    OUT,
    QUERY,
    UNLESS,
    A,
    B,
    ChainedMapSource,
    SparseTask,
    UnlessSource,
    paired_features,
    repeated_tokens,
    sample_repeated,
)

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


SOURCE = ChainedMapSource(batch=400, n_symbols=5, n_steps=3, n_questions=7)
SAMPLE = SOURCE.sample(jax.random.key(3))
N = 5


def test_every_answer_is_where_the_listed_map_leads():
    assert SOURCE.length == 5 + 14 and SOURCE.d_vocab == 5 + 25 + 15
    for text, asked in zip(np.asarray(SAMPLE.tokens), np.asarray(SAMPLE.steps), strict=True):
        step = {}
        for token in text[:N]:
            assert N <= token < N + N * N
            start, end = divmod(int(token) - N, N)
            step[start] = end
        assert sorted(step) == list(range(N))
        seen = set()
        for at, steps in zip(SOURCE.questions, asked, strict=True):
            more, start = divmod(int(text[at]) - N - N * N, N)
            assert more + 1 == steps
            here = start
            for _ in range(steps):
                here = step[here]
            assert text[at + 1] == here
            seen.add(int(text[at]))
        assert len(seen) == 7, "no question comes twice, or its answer could be copied"


def test_maps_orders_and_questions_are_uniform():
    tokens = np.asarray(SAMPLE.tokens)
    first = np.bincount(tokens[:, 0] - N, minlength=N * N).reshape(N, N)
    np.testing.assert_allclose(first / 400, 1 / 25, atol=5 * np.sqrt(0.04 / 400))
    shares = np.bincount(np.asarray(SAMPLE.steps).ravel(), minlength=4)[1:] / (400 * 7)
    np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    asked = np.bincount(tokens[:, SOURCE.questions].ravel() - N - N * N, minlength=15) / 400
    np.testing.assert_allclose(asked, 7 / 15, atol=5 * 0.5 / 20)


@pytest.fixture(scope="module")
def unless():
    """Texts ``[20000, 7]`` of "a unless b", and which of a and b each holds."""
    return tuple(map(np.asarray, UnlessSource(20_000, 7, 4, 0.9).sample(jax.random.key(3))))


def test_cells_hold_what_they_say_and_are_balanced(unless):
    tokens, cell = unless
    for token, only in ((A, 1), (B, 2)):
        stands = np.sum(tokens == token, axis=1)
        np.testing.assert_array_equal(stands, np.isin(cell, (only, 3)))
    assert (tokens[:, -2] == QUERY).all()
    assert np.isin(tokens[:, -1], (OUT, OTHER)).all()
    assert tokens.max() == len(UNLESS) + 3
    assert stats.chisquare(np.bincount(cell)).pvalue > 1e-4


def test_answers_follow_the_rule(unless):
    # One fixed key; the four binomial tests together fail a correct sampler at 4e-4.
    tokens, cell = unless
    for which, prob in enumerate((0.5, 0.9, 0.5, 0.5)):
        out = tokens[cell == which, -1] == OUT
        assert stats.binomtest(int(out.sum()), len(out), prob).pvalue > 1e-4


def test_optimal_loss_is_the_mean_entropy():
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert UnlessSource().optimal_loss == pytest.approx((3 * np.log(2) + entropy) / 4, rel=1e-6)


def test_a_number_and_a_list_of_one_are_the_same_task() -> None:
    assert SparseTask(sparsity=0.7) == SparseTask(sparsity=[0.7]) == SparseTask(sparsity=(0.7,))
    assert hash(SparseTask(sparsity=[0, 0.7])) == hash(SparseTask(sparsity=(0.0, 0.7)))
    assert dataclasses.replace(SparseTask(sparsity=[0.2]), batch_size=3).sparsity == (0.2,)


def test_density_and_importance() -> None:
    task = SparseTask(sparsity=[0, 0.9], importance_base=[1, 0.5])
    np.testing.assert_allclose(task.density, [1.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(task.importance(3), [[1, 1, 1], [1, 0.5, 0.25]])


@pytest.mark.parametrize("together", [0.0, 0.2, 0.7, 1.0])
def test_frequencies_are_those_of_the_law(together: float) -> None:
    n, p = 40_000, 0.2
    keys = jax.random.split(jax.random.key(0))
    pair, value = jax.random.uniform(keys[0], (n, 2)), jax.random.uniform(keys[1], (n, 4))
    x = np.asarray(jax.jit(paired_features)(pair, value, p, together))
    on = x > 0
    error = 4 * np.sqrt(p / n)
    np.testing.assert_allclose(on.mean(axis=0), p, atol=error)
    np.testing.assert_allclose((on[:, 0] & on[:, 1]).mean(), p * together, atol=error)
    np.testing.assert_allclose((on[:, 1] & on[:, 2]).mean(), p * p, atol=error)
    assert x[on].mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(x[on], np.asarray(value)[on])


def test_an_odd_number_of_features_leaves_one_alone() -> None:
    x = paired_features(jnp.array([[0.05, 0.05]]), jnp.array([[0.3, 0.4, 0.5]]), 0.2, 0.0)
    np.testing.assert_allclose(x, [[0.3, 0, 0.5]], rtol=1e-6)
