"""Path counts against the closed formula and enumeration."""

import itertools
import math

import pytest

from circuitax.circuits.paths import expansion


@pytest.mark.parametrize(("n_layers", "n_heads"), [(0, 3), (1, 2), (3, 2), (4, 3)])
def test_counts_equal_enumeration(n_layers, n_heads):
    """``C(L, k) H^k`` for each order, ``(1 + H)^L`` in all (S0 section 6)."""
    found = list(expansion.all_paths(n_layers, n_heads))
    layers = [[None, *range(n_heads)]] * n_layers
    expected = {
        tuple((layer, head) for layer, head in enumerate(choice) if head is not None)
        for choice in itertools.product(*layers)
    }
    assert set(found) == expected and len(found) == len(expected)
    assert expansion.n_paths(n_layers, n_heads) == len(found)
    for order in range(n_layers + 2):
        count = sum(len(path) == order for path in found)
        assert expansion.n_paths(n_layers, n_heads, order) == count
        assert count == math.comb(n_layers, order) * n_heads**order


def test_the_framework_papers_two_layer_model():
    """2 layers of 12 heads: 1 + 24 + 144 = 169 paths."""
    assert [expansion.n_paths(2, 12, k) for k in range(3)] == [1, 24, 144]
    assert expansion.n_paths(2, 12) == 169


def test_E42_one_layer_has_no_virtual_heads():
    """S4 speaks of virtual heads "for our 1/2 layer examples": they are paths of two layers."""
    assert expansion.n_paths(1, 12, order=2) == 0
    assert {len(path) for path in expansion.all_paths(1, 12)} == {0, 1}
    assert max(len(path) for path in expansion.all_paths(2, 3)) == 2


def test_index_is_the_place_in_the_enumeration():
    for i, path in enumerate(expansion.all_paths(3, 2)):
        assert expansion.path_index(path, 2) == i


def test_short_paths_only():
    assert list(expansion.all_paths(2, 1, max_order=1)) == [(), ((0, 0),), ((1, 0),)]
    assert [len(p) for p in expansion.all_paths(4, 3, max_order=2)].count(2) == 54


def test_names_and_checks():
    assert expansion.path_name(()) == "direct"
    assert expansion.path_name(((0, 3), (1, 2))) == "0.3 → 1.2"
    with pytest.raises(ValueError, match="rising order"):
        expansion.check_path(((1, 0), (0, 0)), 2, 1)
    with pytest.raises(ValueError, match="layers below 2 and heads below 1"):
        expansion.check_path(((0, 1),), 2, 1)
    with pytest.raises(ValueError, match="n_heads=-1 must be at least 0"):
        expansion.n_paths(1, -1)
    with pytest.raises(ValueError, match="n_layers=-1 must be at least 0"):
        expansion.all_paths(-1, 2)
    with pytest.raises(ValueError, match="max_order=-1 must be at least 0"):
        expansion.all_paths(1, 2, -1)
    # Head 2 of two heads would have the index of head 0 one layer later.
    with pytest.raises(ValueError, match="heads below 2"):
        expansion.path_index(((0, 2),), 2)
