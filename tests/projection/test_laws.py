"""Laws of one pair against SciPy and against draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.keys import member_keys
from circuitax.projection.laws import (
    Tail,
    dasgupta_gupta_dim,
    extreme_ratios,
    failure_probability,
    jl_dimension,
    jl_epsilon,
    median_threshold,
    overlap_tail,
    proof_constant,
    random_capacity,
    ratio_cdf,
    ratio_quantile,
    ratio_variance,
    smallest_dim,
    statement_constant,
    succeeds,
    tail_bound,
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


GRID = np.meshgrid(np.arange(1, 400, 7), np.linspace(0.05, 0.95, 19))


@pytest.mark.parametrize("tail", list(Tail))
def test_every_bound_is_above_the_exact_probability(tail: Tail) -> None:
    m, eps = GRID
    assert (
        tail_bound(tail, m, eps) >= failure_probability(m, 1 - eps, 1 + eps) * (1 - 1e-12)
    ).all()


def test_bounds_by_hand() -> None:
    assert tail_bound(Tail.cubic, 100, 0.3) == pytest.approx(2 * np.exp(-1.8))
    assert tail_bound(Tail.subgaussian, 100, 0.3) == pytest.approx(2 * np.exp(-1.125))
    assert tail_bound(Tail.bernstein, 100, 0.5) == pytest.approx(np.exp(-25 / 6) + np.exp(-6.25))
    upper, lower = np.exp(-50 * (0.3 - np.log(1.3))), np.exp(-50 * (-0.3 - np.log(0.7)))
    assert tail_bound(Tail.chernoff, 100, 0.3) == pytest.approx(upper + lower)


@pytest.mark.parametrize("tail", list(Tail))
def test_the_jl_dimension_is_the_smallest(tail: Tail) -> None:
    m = jl_dimension(300, 0.25, 0.1, tail=tail)
    n_pairs = 300 * 299 / 2
    assert n_pairs * tail_bound(tail, m, 0.25) <= 0.1 < n_pairs * tail_bound(tail, m - 1, 0.25)


@pytest.mark.parametrize(
    ("n", "epsilon", "expected"),
    # From the documentation of scikit-learn's johnson_lindenstrauss_min_dim.
    [
        (10**6, 0.5, 663),
        (10**6, 0.1, 11841),
        (10**6, 0.01, 1112658),
        (10**4, 0.1, 7894),
        (10**5, 0.1, 9868),
    ],
)
def test_scikit_learns_formula(n: int, epsilon: float, expected: int) -> None:
    # That function truncates.
    assert 0 <= dasgupta_gupta_dim(n, epsilon) - expected < 1


def test_S0_theorem_27_constants_make_the_union_bound_close() -> None:
    for n in (2, 100, 10**6):
        for epsilon in (0.05, 0.5, 0.99):
            pairs, scale = n * (n - 1) / 2, np.log(n) / epsilon**2
            stated = np.ceil(statement_constant(epsilon) * scale)
            assert pairs * tail_bound(Tail.cubic, stated, epsilon) < 1
            proved = np.ceil(proof_constant(epsilon) * scale)
            assert pairs * tail_bound(Tail.cubic, proved, epsilon / 2) < 1
            # A quarter less does not do for large N.
            fewer = 0.75 * statement_constant(epsilon) * scale
            assert n < 10**6 or pairs * tail_bound(Tail.cubic, fewer, epsilon) > 1


def test_S0_theorem_27_explicit_constants() -> None:
    assert statement_constant(1e-9) == pytest.approx(8)
    assert proof_constant(1e-9) == pytest.approx(32)  # β = ε/2 costs a factor of four
    grid = np.linspace(0.01, 0.99, 99)
    assert max(statement_constant(e) for e in grid) < 24
    assert max(proof_constant(e) for e in grid) < 48
    assert statement_constant(0.3) == pytest.approx(
        dasgupta_gupta_dim(50, 0.3) * 0.3**2 / np.log(50)
    )


DIMS = np.array([10, 20, 30, 40])


def table(counts: list[int], n: int = 20) -> np.ndarray:
    return np.arange(n)[:, None] < np.array(counts)[None, :]


def test_smallest_dim_and_its_interval_by_hand() -> None:
    # Rates 0, 0.5, 0.95, 1; at n = 20 the interval of 10/20 ends at 0.73, of 20/20 begins at 0.83.
    found = smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.1)
    assert found.dim == 30 and found.low == 30 and np.isnan(found.high)
    found = smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.3)
    assert (found.dim, found.low, found.high) == (30, 20, 30)
    # The exact interval of 10/20 ends at 0.728, Wilson's at 0.701; that of 50 % at 0.598.
    assert smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.28).low == 20
    assert smallest_dim(table([0, 10, 19, 20]), DIMS, delta=0.28, level=0.5).low == 30


def test_a_lucky_m_does_not_count() -> None:
    assert smallest_dim(table([0, 20, 10, 20]), DIMS, delta=0.1).dim == 40
    assert np.isnan(smallest_dim(table([0, 0, 0, 1]), DIMS, delta=0.1).dim)


def test_success_needs_both_sides() -> None:
    low = np.array([[-0.1, -0.3]])
    high = np.array([[0.3, 0.1]])
    np.testing.assert_array_equal(succeeds(low, high, 0.2), [[False, False]])
    np.testing.assert_array_equal(succeeds(low, high, 0.3), [[True, True]])
    many = succeeds(np.stack([low, 2 * low]), np.stack([high, high]), 0.4)  # a table a size
    np.testing.assert_array_equal(many, [[[True, True]], [[True, False]]])


def test_guaranteed_epsilon_inverts_the_jl_dimension() -> None:
    m = jl_dimension(200, 0.3, tail=Tail.exact)
    assert jl_epsilon(200, m, tail=Tail.exact) == pytest.approx(0.3, abs=5e-3)
    assert np.isnan(jl_epsilon(200, 10, tail=Tail.subgaussian))
