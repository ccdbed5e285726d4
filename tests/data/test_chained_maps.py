"""Chained maps, each text read token by token as a person would."""

import jax
import numpy as np
import pytest

from circuitax.data.synthetic import ChainedMapSource

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


def test_a_batch_is_a_function_of_the_key():
    again = jax.jit(SOURCE.sample)(jax.random.key(3))
    np.testing.assert_array_equal(again.tokens, SAMPLE.tokens)
    np.testing.assert_array_equal(SOURCE(jax.random.key(3)), SAMPLE.tokens)
    assert (np.asarray(SOURCE(jax.random.key(4))) != SAMPLE.tokens).any()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 0}, "batch=0 must be at least 1"),
        ({"n_symbols": 1}, "n_symbols=1 must be at least 2"),
        ({"n_steps": 0}, "n_steps=0 must be at least 1"),
        ({"n_questions": 0}, "n_questions=0 must be between 1 and n_symbols n_steps=24"),
        ({"n_questions": 25}, "n_questions=25 must be between 1 and n_symbols n_steps=24"),
    ],
)
def test_sizes_that_make_no_texts_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        ChainedMapSource(**sizes)
