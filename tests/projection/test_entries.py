"""Entry laws: moments, support, and columns that depend on their key alone."""

import jax
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import (
    EntryLaw,
    draw_column,
    draw_columns,
    inverse_density,
    kurtosis,
)

DIM = 40_000


@pytest.mark.parametrize("law", list(EntryLaw))
def test_mean_variance_and_kurtosis_within_five_standard_errors(law: EntryLaw) -> None:
    x = np.asarray(draw_column(jax.random.key(7), law, DIM), np.float64)
    fourth = kurtosis(law, DIM)
    assert abs(x.mean()) < 5 / np.sqrt(DIM)
    # Var(r²) = κ − 1, and Var(r⁴) = E r⁸ − κ², where r⁸ is 105 or s⁴/s.
    assert abs((x**2).mean() - 1) <= 5 * np.sqrt(max(fourth - 1, 1e-12) / DIM)
    eighth = 105 if law is EntryLaw.gaussian else inverse_density(law, DIM) ** 3
    assert abs((x**4).mean() - fourth) <= 5 * np.sqrt(max(eighth - fourth**2, 1e-9) / DIM)


def test_support_of_the_sparse_laws() -> None:
    for law, s in ((EntryLaw.achlioptas, 3.0), (EntryLaw.li, 200.0)):
        x = np.asarray(draw_column(jax.random.key(3), law, DIM), np.float64)
        values, counts = np.unique(x, return_counts=True)
        np.testing.assert_allclose(values, [-np.sqrt(s), 0, np.sqrt(s)], rtol=1e-6)
        # False-alarm rate 1e-3 at this fixed key.
        expected = DIM * np.array([0.5 / s, 1 - 1 / s, 0.5 / s])
        assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_gaussian_entries_follow_the_normal_law() -> None:
    x = np.asarray(draw_column(jax.random.key(5), EntryLaw.gaussian, DIM))
    assert stats.kstest(x, "norm").pvalue > 1e-3


def test_signs_are_signs() -> None:
    x = np.asarray(draw_column(jax.random.key(1), EntryLaw.rademacher, 64))
    assert set(np.unique(x)) == {-1.0, 1.0}


def test_a_column_depends_on_its_own_key_only() -> None:
    keys = member_keys(jax.random.key(2), 5)
    wide = np.asarray(draw_columns(keys, EntryLaw.achlioptas, 30))
    np.testing.assert_array_equal(wide[:, 3], draw_column(keys[3], EntryLaw.achlioptas, 30))
    assert len(np.unique(wide, axis=1).T) == 5
