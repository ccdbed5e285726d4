"""The benchmark of token circuits: the peer's blocks, and that other entries are refused."""

import numpy as np
import pytest

from experiments.benchmarks import token_circuit


def test_search_in_blocks_finds_the_largest_entries_and_others_are_refused() -> None:
    left, right = token_circuit.factors(30)
    dense = left @ right
    found = token_circuit.in_blocks(left, right, 100, 7)
    np.testing.assert_allclose(found.values, np.sort(dense.ravel())[::-1][:100], rtol=1e-5)
    np.testing.assert_allclose(found.values, dense[found.rows, found.columns], rtol=1e-5)
    ours = token_circuit.our_search(left, right)()
    token_circuit.require_equal(ours, found)
    moved = found._replace(columns=found.columns.at[:30].add(100))
    with pytest.raises(RuntimeError, match="the two sides differ in 30 of 100 entries"):
        token_circuit.require_equal(ours, moved)
