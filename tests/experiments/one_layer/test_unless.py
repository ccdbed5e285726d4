import jax
import numpy as np
import pytest
from scipy import stats

from experiments.one_layer.one_layer_circuits.unless_task import (
    BOTH,
    FIRST_FILLER,
    NEITHER,
    ONLY_A,
    ONLY_B,
    OTHER,
    OUT,
    QUERY,
    A,
    B,
    optimal_loss,
    sample_unless,
)

KEY = jax.random.key(3)


def test_cells_hold_what_they_say_and_are_balanced() -> None:
    sample = sample_unless(KEY, 8000, 7, n_filler=4, high=0.9)
    tokens, cell = np.asarray(sample.tokens), np.asarray(sample.cell)
    has_a, has_b = (np.sum(tokens == t, axis=1) for t in (A, B))
    np.testing.assert_array_equal(has_a, np.isin(cell, (ONLY_A, BOTH)))
    np.testing.assert_array_equal(has_b, np.isin(cell, (ONLY_B, BOTH)))
    assert (tokens[:, -2] == QUERY).all() and np.isin(tokens[:, -1], (OUT, OTHER)).all()
    assert tokens.max() == FIRST_FILLER + 3
    assert stats.chisquare(np.bincount(cell)).pvalue > 1e-4


def test_answers_follow_the_rule() -> None:
    # One fixed key; the four binomial tests together fail a correct sampler at 4e-4.
    sample = sample_unless(KEY, 20000, 7, n_filler=4, high=0.9)
    out = np.asarray(sample.tokens[:, -1]) == OUT
    for cell, prob in ((NEITHER, 0.5), (ONLY_A, 0.9), (ONLY_B, 0.5), (BOTH, 0.5)):
        chosen = out[np.asarray(sample.cell) == cell]
        assert stats.binomtest(int(chosen.sum()), len(chosen), prob).pvalue > 1e-4


def test_places_are_all_ordered_pairs() -> None:
    # With both in a body of 4 places there are 12 ordered pairs, equally likely.
    sample = sample_unless(KEY, 20000, 6, n_filler=2, high=0.9)
    body = np.asarray(sample.tokens)[np.asarray(sample.cell) == BOTH, :4]
    pair = (body == A).argmax(1) * 4 + (body == B).argmax(1)
    counts = np.bincount(pair, minlength=16)
    assert (counts[[0, 5, 10, 15]] == 0).all()
    assert stats.chisquare(counts[counts > 0]).pvalue > 1e-4
    assert np.count_nonzero(counts) == 12


def test_optimal_loss_is_the_mean_entropy() -> None:
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert optimal_loss(0.9) == pytest.approx((3 * np.log(2) + entropy) / 4, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch=0"),
        ({"length": 3}, "length=3"),
        ({"n_filler": 0}, "n_filler=0"),
        ({"high": 0.5}, "high=0.5"),
    ],
)
def test_impossible_arguments(change: dict[str, float], message: str) -> None:
    arguments = {"batch": 2, "length": 6, "n_filler": 3, "high": 0.9} | change
    with pytest.raises(ValueError, match=message):
        sample_unless(KEY, **arguments)
