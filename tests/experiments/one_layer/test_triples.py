"""Triples of a text against three nested loops."""

import numpy as np
import pytest

from experiments.one_layer.one_layer_circuits.triples import most_frequent, seen_triples


def test_triples_are_those_of_a_loop() -> None:
    tokens = np.random.default_rng(0).integers(0, 6, 60).astype(np.uint16)
    chosen, reach = np.array([4, 0, 2]), 3
    expected = np.zeros((3, 3, 3), bool)
    names = list(chosen)
    for dest in range(1, 59):
        for source in range(max(0, dest - reach), dest):
            triple = tokens[source], tokens[dest], tokens[dest + 1]
            if all(t in names for t in triple):
                expected[tuple(names.index(t) for t in triple)] = True
    found = seen_triples(tokens, chosen, reach)
    np.testing.assert_array_equal(found, expected)
    assert 0 < expected.sum() < 27, "the test would not see a table of ones"


def test_a_source_out_of_reach_is_not_counted() -> None:
    tokens = np.array([0, 3, 3, 1, 2])
    chosen = np.array([0, 1, 2])
    assert not seen_triples(tokens, chosen, 2).any()
    assert np.argwhere(seen_triples(tokens, chosen, 3)).tolist() == [[0, 1, 2]]


def test_most_frequent_first() -> None:
    np.testing.assert_array_equal(most_frequent(np.array([2, 2, 0, 1, 1, 2]), 4, 3), [2, 1, 0])


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="reach=0 must be at least 1"):
        seen_triples(np.arange(4), np.arange(2), 0)
    with pytest.raises(ValueError, match="holds 1025 tokens, must hold at most 1024"):
        seen_triples(np.arange(4), np.arange(1025), 1)
