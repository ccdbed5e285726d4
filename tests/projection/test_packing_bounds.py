"""Bounds at the packings that meet them, and inverses of one another."""

import numpy as np
import pytest

from circuitax.projection.packings import (
    capacity_bound,
    coherence_bound,
    greedy_exponent,
    kabatiansky_levenshtein,
    levenshtein_bound,
    orthoplex_bound,
    random_exponent,
    welch_bound,
)


def test_bounds_met_by_known_packings() -> None:
    assert welch_bound(28, 7) == pytest.approx(1 / 3)  # equiangular lines
    assert welch_bound(276, 23) == pytest.approx(1 / 5)
    assert welch_bound(6, 3) == pytest.approx(1 / np.sqrt(5))  # icosahedron
    assert levenshtein_bound(120, 8) == pytest.approx(1 / 2)  # E8
    assert levenshtein_bound(144, 16) == pytest.approx(1 / 4)  # mutually unbiased bases
    assert orthoplex_bound(144, 16) == pytest.approx(1 / 4)
    assert orthoplex_bound(136, 16) == levenshtein_bound(136, 16) == 0
    assert welch_bound(5, 5) == 0
    assert coherence_bound(120, 8) == pytest.approx(1 / 2)
    assert coherence_bound(28, 7) == pytest.approx(1 / 3)


def test_capacity_inverts_the_coherence_bounds() -> None:
    assert capacity_bound(7, 1 / 3) == pytest.approx(28)
    assert capacity_bound(8, 0.5) == pytest.approx(120)
    assert capacity_bound(16, 0.25) == pytest.approx(144)
    assert capacity_bound(10, 0.315) == 55  # orthoplex caps Welch, which allows far more
    assert np.isinf(capacity_bound(100, 0.3))
    for d, epsilon in ((12, 0.2), (12, 0.4)):
        n = capacity_bound(d, epsilon)
        np.testing.assert_allclose(coherence_bound(n, d), epsilon, rtol=1e-12)


def test_exponents_in_their_limits_and_order() -> None:
    for epsilon in (0.1, 0.3, 0.7):
        assert (
            random_exponent(epsilon) < greedy_exponent(epsilon) < kabatiansky_levenshtein(epsilon)
        )
    assert random_exponent(1e-3) == pytest.approx(1e-6 / 4, rel=1e-5)
    # At 60 degrees (kissing numbers) Kabatiansky and Levenshtein print (1/n) log2 N ≤ 0.401.
    assert kabatiansky_levenshtein(0.5) / np.log(2) == pytest.approx(0.401, abs=5e-4)
    limit = 0.5e-6 * np.log(2 * np.exp(0.5) / 1e-3)
    assert kabatiansky_levenshtein(1e-3) == pytest.approx(limit, rel=1e-5)


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match="n_vectors=0"):
        welch_bound(0, 3)
    with pytest.raises(ValueError, match="dim=0"):
        capacity_bound(0, 0.3)
    with pytest.raises(ValueError, match="epsilon="):
        capacity_bound(4, 1.0)
