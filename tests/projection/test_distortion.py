"""All pairs and sampled pairs against NumPy, near-duplicates, duplicates, many maps, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.distortion import Measure, check_points, distortion, sampled_distortion
from circuitax.projection.stream import quantile, summarise

WIDE = (-2.0, 2.0)
BOUNDS = jnp.array([[-0.3, 0.3], [-0.5, 0.1]])


def brute_force(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(len(x), 1)
    x, y = x.astype(np.float64), y.astype(np.float64)
    return ((y[i] - y[j]) ** 2).sum(1) / ((x[i] - x[j]) ** 2).sum(1) - 1


def cloud(rng: np.random.Generator, n: int = 23) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 12)).astype(np.float32)
    return x, (x @ rng.normal(size=(12, 7)) / np.sqrt(7)).astype(np.float32)


@pytest.mark.parametrize("block", [5, 23])
def test_all_pairs_agree_with_numpy(block: int, rng: np.random.Generator) -> None:
    x, y = cloud(rng)
    v = brute_force(x, y)
    found = summarise(distortion(jnp.asarray(x), jnp.asarray(y), BOUNDS, WIDE, block=block))
    assert found.n_used == 253 and found.n_zero == found.n_unresolved == 0
    np.testing.assert_allclose(
        [found.mean, found.std, found.low, found.high],
        [v.mean(), v.std(), v.min(), v.max()],
        rtol=1e-5,
        atol=1e-6,
    )
    np.testing.assert_array_equal(found.below, [(v < -0.3).sum(), (v < -0.5).sum()])
    np.testing.assert_array_equal(found.above, [(v > 0.3).sum(), (v > 0.1).sum()])
    low, high = quantile(found, 0.5)
    assert low - 1e-5 <= np.sort(v)[126] <= high + 1e-5


def test_identities_hold_to_double_precision(x64: None, rng: np.random.Generator) -> None:
    x, y = (z.astype(np.float64) for z in cloud(rng))
    v = brute_force(x, y)
    found = summarise(distortion(jnp.asarray(x), jnp.asarray(y), BOUNDS, block=8))
    np.testing.assert_allclose([found.mean, found.low], [v.mean(), v.min()], rtol=1e-12)


@pytest.mark.parametrize("measure", [Measure.inner, Measure.cosine, Measure.angle])
def test_other_measures_over_all_pairs(measure: Measure, rng: np.random.Generator) -> None:
    x, y = cloud(rng)
    i, j = np.triu_indices(len(x), 1)

    def cosines(z: np.ndarray) -> np.ndarray:
        unit = z / np.linalg.norm(z, axis=1, keepdims=True)
        return (unit @ unit.T)[i, j]

    norms = np.linalg.norm(x, axis=1)
    v = {
        Measure.inner: (y @ y.T - x @ x.T)[i, j] / np.outer(norms, norms)[i, j],
        Measure.cosine: cosines(y) - cosines(x),
        Measure.angle: np.arccos(cosines(y)) - np.arccos(cosines(x)),
    }[measure]
    found = summarise(distortion(jnp.asarray(x), jnp.asarray(y), BOUNDS, measure=measure, block=8))
    assert found.n_used == 253
    np.testing.assert_allclose(
        [found.mean, found.low, found.high], [v.mean(), v.min(), v.max()], atol=3e-6
    )


def test_near_duplicates_are_resolved_and_duplicates_are_counted(rng: np.random.Generator) -> None:
    x, _ = cloud(rng)
    x[7] = x[3] * np.float32(1 + 1e-4)  # a relative distance of 1e-4: the Gram form returns noise
    x[11] = x[10] = x[2]
    P = rng.normal(size=(12, 7)) / np.sqrt(7)
    y = (x.astype(np.float64) @ P).astype(np.float32)
    with np.errstate(invalid="ignore"):
        v = brute_force(x, y)
    v = v[np.isfinite(v)]
    stream = distortion(jnp.asarray(x), jnp.asarray(y), BOUNDS, WIDE, block=9)
    found = summarise(stream)
    assert (found.n_used, found.n_zero, found.n_unresolved) == (250, 3, 0)
    np.testing.assert_allclose([found.mean, found.high], [v.mean(), v.max()], rtol=2e-4)
    assert found.histogram.sum() == 250
    with pytest.raises(ValueError, match="points must be distinct: 3 pairs"):
        summarise(stream, require_distinct=True)


def test_pairs_past_the_capacity_are_counted_not_dropped_silently() -> None:
    x = jnp.ones((6, 4))
    found = distortion(x.at[5, 0].set(9.0), x[:, :2].at[5].set(0.0), BOUNDS, near_capacity=4)
    summary = summarise(found)
    assert (summary.n_zero, summary.n_unresolved, summary.n_used) == (4, 6, 5)
    none = summarise(distortion(x.at[5, 0].set(9.0), x[:, :2], BOUNDS, near_capacity=0))
    assert (none.n_zero, none.n_unresolved, none.n_used) == (0, 10, 5)


def test_many_maps_under_vmap_are_the_single_ones(rng: np.random.Generator) -> None:
    x, y = cloud(rng)
    images = jnp.stack([jnp.asarray(y), 2 * jnp.asarray(y)])
    many = jax.vmap(lambda im: distortion(jnp.asarray(x), im, BOUNDS, block=8))(images)
    found = summarise(many)
    v = brute_force(x, y)
    np.testing.assert_allclose(found.low, [v.min(), 4 * (v.min() + 1) - 1], rtol=1e-4)
    np.testing.assert_allclose(found.mean, [v.mean(), 4 * (v.mean() + 1) - 1], rtol=1e-4)
    assert found.below.shape == (2, 2)


def test_points_that_a_jit_closes_over_are_no_constants(rng: np.random.Generator) -> None:
    x, y = (jnp.asarray(z) for z in cloud(rng))
    closed = jax.jit(lambda scale: distortion(x, scale * y, BOUNDS))
    assert "optimization_barrier" in closed.lower(1.0).as_text()
    passed = jax.jit(lambda x, y: distortion(x, y, BOUNDS))
    assert "optimization_barrier" not in passed.lower(x, y).as_text()
    found, want = summarise(closed(2.0)), summarise(distortion(x, 2 * y, BOUNDS))
    for name in ("mean", "low", "high", "histogram", "below"):
        np.testing.assert_allclose(getattr(found, name), getattr(want, name), rtol=1e-5)


def test_sampled_pairs_are_uniform_over_distinct_indices(rng: np.random.Generator) -> None:
    x, y = cloud(rng)
    v = brute_force(x, y)
    stream = sampled_distortion(
        jax.random.key(0), jnp.asarray(x), jnp.asarray(y), BOUNDS, WIDE, n_pairs=40_000
    )
    found = summarise(stream)
    assert found.n_used == 40_000 and found.n_zero == 0  # i = j would be a zero distance
    assert abs(found.mean - v.mean()) < 5 * v.std() / np.sqrt(40_000)
    np.testing.assert_allclose([found.low, found.high], [v.min(), v.max()], rtol=1e-4)
    share = found.above[0] / 40_000
    expected = (v > 0.3).mean()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 40_000)


def test_nan_points_and_wrong_sizes_are_refused(rng: np.random.Generator) -> None:
    x, y = (jnp.asarray(z) for z in cloud(rng))
    holed = x.at[4, 2].set(jnp.nan)
    with pytest.raises(ValueError, match="NaN or infinity: 22 pairs"):
        summarise(jax.jit(lambda x: distortion(x, y, BOUNDS, block=8))(holed))
    with pytest.raises(ValueError, match=r"points\[4, 2\]=nan must be finite"):
        distortion(holed, y, BOUNDS, block=8)
    with pytest.raises(ValueError, match=r"images\[0, 1\]=inf must be finite"):
        sampled_distortion(jax.random.key(0), x, y.at[0, 1].set(jnp.inf), BOUNDS, n_pairs=3)
    with pytest.raises(ValueError, match="points has 23 rows and images 22"):
        check_points(x, y[:22])
    with pytest.raises(ValueError, match="points has 1 rows, must have at least two"):
        distortion(x[:1], y[:1], BOUNDS)
    with pytest.raises(ValueError, match="n_pairs=0"):
        sampled_distortion(jax.random.key(0), x, y, BOUNDS, n_pairs=0)
    with pytest.raises(ValueError, match="n_points=1 must be at least 2"):
        sampled_distortion(jax.random.key(0), x[:1], y[:1], BOUNDS, n_pairs=3)
