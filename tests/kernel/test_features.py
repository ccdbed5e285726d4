"""Sparse features: moments, fraction active, uniformity; correlated and anticorrelated sets.

Random claims use fixed keys; each states the false-alarm rate it would have over keys.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.toy import feature_columns, sample_anticorrelated, sample_correlated

BATCH = 40_000
DENSITY = np.array([0.0, 0.02, 0.3, 1.0])


def sample(signed: bool = False) -> np.ndarray:
    u = jax.random.uniform(jax.random.key(1), (len(DENSITY), BATCH), jnp.float32)
    x = feature_columns(u, jnp.asarray(DENSITY, jnp.float32), signed=signed)
    return np.asarray(x.T, np.float64)


def assert_mean(values: np.ndarray, mean: float, second: float) -> None:
    """Five standard errors from the closed form: false-alarm rate 6e-7 a comparison."""
    error = np.sqrt(max(second - mean**2, 0) / len(values))
    assert abs(values.mean() - mean) <= 5 * error + 1e-12


@pytest.mark.parametrize("signed", [False, True])
def test_columns_are_numpys(signed: bool, x64: None, rng: np.random.Generator) -> None:
    u = rng.uniform(size=(4, 50))
    p = DENSITY[:, None]
    value = u / np.where(p > 0, p, 1)
    expected = np.where(u < p, 2 * value - 1 if signed else value, 0)
    found = feature_columns(jnp.asarray(u), jnp.asarray(DENSITY), signed=signed)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def test_moments_are_p_over_2_and_p_over_3() -> None:
    x = sample()
    for i, p in enumerate(DENSITY):
        assert_mean(x[:, i], p / 2, p / 3)
        assert_mean(x[:, i] ** 2, p / 3, p / 5)


def test_fraction_active_is_the_density() -> None:
    x = sample()
    for i, p in enumerate(DENSITY):
        assert_mean(x[:, i] != 0, p, p)
    assert not x[:, 0].any()
    assert (x[:, 3] != 0).mean() > 0.9999  # a uniform may be exactly 0


@pytest.mark.parametrize("signed", [False, True])
def test_active_values_are_uniform(signed: bool) -> None:
    """Kolmogorov-Smirnov at a fixed key; false-alarm rate 1e-4 a feature."""
    x = sample(signed=signed)
    low = -1.0 if signed else 0.0
    for i in (1, 2, 3):
        active = x[x[:, i] != 0, i]
        assert active.min() >= low and active.max() <= 1
        assert stats.kstest(active, stats.uniform(low, 1 - low).cdf).pvalue > 1e-4


def test_features_are_independent() -> None:
    """Correlations of n samples have standard deviation 1/sqrt(n); five of them, 6e-7."""
    x = sample()[:, 1:]
    off = np.corrcoef(x.T)[~np.eye(3, dtype=bool)]
    assert np.abs(off).max() < 5 / np.sqrt(BATCH)


def test_density_is_dynamic_and_compiles_once() -> None:
    traces = []

    u = jax.random.uniform(jax.random.key(0), (2, 8))

    def draw(density: jax.Array) -> jax.Array:
        traces.append(None)
        return feature_columns(u, density, signed=False)

    sweep = jax.jit(jax.vmap(draw))
    drawn = sweep(jnp.array([[0.2, 0.3], [0.8, 0.9]]))
    sweep(jnp.array([[0.1, 0.6], [0.5, 0.4]]))
    assert drawn.shape == (2, 2, 8)
    assert len(traces) == 1
    # Common random numbers: what is on at a low density is on at a higher one.
    assert np.all((np.asarray(drawn[0]) == 0) | (np.asarray(drawn[1]) != 0))


def test_correlated_members_share_the_switch_and_nothing_else() -> None:
    p = 0.3
    x = np.asarray(
        sample_correlated(jax.random.key(2), jnp.array([p, 0.7]), BATCH, set_size=3), np.float64
    )
    on = (x != 0).reshape(BATCH, 2, 3)
    assert np.all(on.all(axis=2) == on.any(axis=2))
    assert_mean(on[:, 0, 0], p, p)
    assert_mean(on[:, 0, 0] & on[:, 1, 0], p * 0.7, p * 0.7)
    both = x[on[:, 0, 0], :2]
    assert abs(np.corrcoef(both.T)[0, 1]) < 5 / np.sqrt(len(both))
    assert stats.kstest(both[:, 1], stats.uniform.cdf).pvalue > 1e-4


def test_anticorrelated_sets_have_one_member_on() -> None:
    p, size = 0.6, 3
    x = np.asarray(
        sample_anticorrelated(jax.random.key(3), jnp.array([p, 0.1]), BATCH, set_size=size),
        np.float64,
    )
    on = (x != 0).reshape(BATCH, 2, size)
    assert on.sum(axis=2).max() == 1
    assert_mean(on[:, 0].any(axis=1), p, p)
    for member in range(size):
        assert_mean(on[:, 0, member], p / size, p / size)
        active = x[on[:, 0, member], member]
        assert stats.kstest(active, stats.uniform.cdf).pvalue > 1e-4


@pytest.mark.parametrize("draw", [sample_correlated, sample_anticorrelated])
def test_sets_refuse_impossible_sizes(draw: object) -> None:
    with pytest.raises(ValueError, match="set_size=0 must be at least 1"):
        draw(jax.random.key(0), jnp.array([0.5]), 4, set_size=0)  # type: ignore[operator]


@pytest.mark.parametrize("draw", [sample_correlated, sample_anticorrelated])
def test_sets_refuse_an_empty_batch_and_impossible_densities(draw: object) -> None:
    for density, batch, message in (
        (0.5, 0, "batch=0 must be at least 1"),
        (1.5, 4, r"density\[0\]=1.5 must be in \[0, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            draw(jax.random.key(0), jnp.array([density]), batch, set_size=2)  # type: ignore[operator]


@pytest.mark.parametrize("density", [-0.25, 1.25, float("nan")])
def test_densities_outside_their_range_are_refused(density: float) -> None:
    with pytest.raises(ValueError, match=rf"density\[1\]={density} must be in \[0, 1\]"):
        feature_columns(jnp.ones((2, 3)), jnp.array([0.5, density]), signed=True)
