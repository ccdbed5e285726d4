"""Laws of one pair against SciPy and against draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.keys import member_keys
from circuitax.projection.laws import (
    extreme_ratios,
    failure_probability,
    median_threshold,
    overlap_tail,
    random_capacity,
    ratio_cdf,
    ratio_quantile,
    ratio_variance,
)
from circuitax.projection.maps import EntryLaw, MapFamily, MapSpec, kurtosis, pair_ratios

FALSE_ALARM = 1e-3
M, N_MAPS = 12, 4000
Z = jnp.arange(1.0, 41.0)


def ratios(family: MapFamily, z: jax.Array = Z, unit_gain: bool = False) -> np.ndarray:
    spec = MapSpec(family, z.shape[0], M, unit_gain=unit_gain)
    return np.asarray(pair_ratios(member_keys(jax.random.key(21), N_MAPS), z, spec), np.float64)


def test_cdf_and_quantile_are_scipys() -> None:
    r = np.array([0.2, 0.9, 1.0, 1.7])
    np.testing.assert_allclose(ratio_cdf(r, 7), stats.chi2.cdf(7 * r, 7), rtol=1e-12)
    np.testing.assert_allclose(ratio_quantile(ratio_cdf(r, 7), 7), r, rtol=1e-10)
    both = stats.chi2.cdf(200 * 0.6, 200) + stats.chi2.sf(200 * 1.4, 200)
    np.testing.assert_allclose(failure_probability(200, 0.6, 1.4), both, rtol=1e-10)
    # Far tails are not lost to 1 − cdf.
    assert 0 < failure_probability(2000, 0.5, 1.5) < 1e-30


def test_gaussian_maps_follow_the_chi_squared_law() -> None:
    sample = ratios(MapFamily.gaussian)
    assert stats.kstest(sample, lambda r: ratio_cdf(r, M)).pvalue > FALSE_ALARM
    # The test has the power to tell 12 dimensions from 16.
    assert stats.kstest(sample, lambda r: ratio_cdf(r, M + 4)).pvalue < FALSE_ALARM


def test_orthogonal_maps_follow_the_beta_law() -> None:
    sample = ratios(MapFamily.orthogonal, unit_gain=True)
    # (n/m) Beta(m/2, (n - m)/2): rows of an orthogonal map never repeat a direction.
    law = stats.beta(M / 2, (40 - M) / 2, scale=40 / M)
    assert stats.kstest(sample, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(sample, lambda r: ratio_cdf(r, M)).pvalue < FALSE_ALARM


@pytest.mark.parametrize(
    ("family", "law"),
    [
        (MapFamily.gaussian, EntryLaw.gaussian),
        (MapFamily.rademacher, EntryLaw.rademacher),
        (MapFamily.achlioptas, EntryLaw.achlioptas),
        (MapFamily.li, EntryLaw.li),
    ],
)
def test_variance_of_the_ratio(family: MapFamily, law: EntryLaw) -> None:
    z = jnp.array([4.0, 2.0, 1.0, 1.0] + [0.0] * 12)  # concentrated, so that kurtosis matters
    participation = float((z**4).sum() / (z**2).sum() ** 2)
    expected = ratio_variance(kurtosis(law, 16), participation, M)
    sample = ratios(family, z)
    spread = ((sample - sample.mean()) ** 2).std() / np.sqrt(N_MAPS)
    assert abs(sample.var() - expected) < 5 * spread


def test_overlaps_of_random_directions_follow_the_beta_law() -> None:
    x = np.random.default_rng(8).normal(size=(5000, 2, 6))
    u, v = np.moveaxis(x / np.linalg.norm(x, axis=2, keepdims=True), 1, 0)
    c = (u * v).sum(1)
    assert stats.kstest(np.abs(c), lambda e: 1 - overlap_tail(6, e)).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(c), lambda e: 1 - overlap_tail(7, e)).pvalue < FALSE_ALARM
    np.testing.assert_allclose(overlap_tail(3, 0.25), 0.75)  # Archimedes: uniform on [-1, 1]


def test_extremes_of_independent_ratios() -> None:
    low, high = extreme_ratios(50, 9)
    # Fifty independent ratios all lie below the median of their maximum with probability a half.
    assert stats.chi2.cdf(9 * high, 9) ** 50 == pytest.approx(0.5, rel=1e-6)
    assert stats.chi2.sf(9 * low, 9) ** 50 == pytest.approx(0.5, rel=1e-6)


def test_median_threshold_solves_its_equation() -> None:
    m = median_threshold(100, 0.3, 0.8)
    pairs = 100 * 99 / 2
    assert np.exp(-pairs * failure_probability(m, 0.7, 1.3)) == pytest.approx(0.8)
    assert median_threshold(2, 0.9) == 1.0  # one pair keeps 0.9 half of the time at m = 1


def test_random_capacity_is_the_median_of_first_failures() -> None:
    rng, dim, epsilon = np.random.default_rng(3), 30, 0.5
    first = []
    for _ in range(400):
        u = rng.normal(size=(120, dim))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        worst = np.maximum.accumulate(np.abs(np.tril(u @ u.T, -1)).max(1))
        first.append(int((worst <= epsilon).sum()))
    capacity = float(random_capacity(dim, epsilon))
    # A median of 400 lies between the 42 % and 58 % points but for one key in a thousand.
    low, high = np.quantile(first, [0.42, 0.58])
    assert low <= capacity <= high + 1
