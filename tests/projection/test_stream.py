"""Streaming statistics against NumPy, and what the summary refuses."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.stream import empty_stream, quantile, summarise, update

LIMITS = (-1.0, 1.0)


def run(values: np.ndarray, n_bins: int = 200, zero: np.ndarray | None = None):
    """The stream of a table of values, in tiles of four rows."""
    bounds = jnp.array([[-0.5, 0.5], [-0.1, 0.3]])
    zero = np.zeros(values.shape, bool) if zero is None else zero
    stream = empty_stream(2, n_bins)
    for k in range(0, len(values), 4):
        tile = jnp.asarray(values[k : k + 4], jnp.float32)
        none = jnp.asarray(zero[k : k + 4])
        stream = update(stream, tile, ~none, none, bounds, jnp.array(LIMITS))
    return stream


def test_statistics_agree_with_numpy(rng: np.random.Generator) -> None:
    v = rng.normal(scale=0.4, size=(40, 25)).astype(np.float32)
    found = summarise(run(v))
    assert found.n_used == 1000 and found.n_zero == 0
    np.testing.assert_allclose(found.mean, v.astype(np.float64).mean(), atol=1e-7)
    np.testing.assert_allclose(found.std, v.astype(np.float64).std(), rtol=1e-6)
    assert (found.low, found.high) == (v.min(), v.max())
    np.testing.assert_array_equal(found.below, [(v < -0.5).sum(), (v < np.float32(-0.1)).sum()])
    np.testing.assert_array_equal(found.above, [(v > 0.5).sum(), (v > np.float32(0.3)).sum()])
    inside, edges = np.histogram(v, found.edges)
    assert found.histogram.sum() == 1000
    # A value on an edge may round to either side.
    assert np.abs(found.histogram[1:-1] - inside).sum() <= 4
    np.testing.assert_allclose(edges, np.linspace(-1, 1, 201))
    assert found.histogram[0] == (v < -1).sum() and found.histogram[-1] == (v >= 1).sum()


@pytest.mark.parametrize("level", [0.0, 0.001, 0.25, 0.5, 0.99, 1.0])
def test_a_quantile_lies_in_its_cell(level: float, rng: np.random.Generator) -> None:
    v = rng.normal(scale=0.4, size=(40, 25)).astype(np.float32)
    low, high = quantile(summarise(run(v)), level)
    exact = np.sort(v.ravel())[max(0, int(np.ceil(level * 1000)) - 1)]
    assert low - 1e-6 <= exact <= high + 1e-6
    inside = -1 < exact < 1
    assert not inside or high - low <= 0.01 + 1e-9


def test_zero_distances_are_reported_and_left_out(rng: np.random.Generator) -> None:
    v = rng.normal(scale=0.1, size=(8, 5))
    zero = np.zeros(v.shape, bool)
    zero[2, :3] = True
    v[2, :3] = np.nan  # what dividing by zero would give
    stream = run(v, zero=zero)
    found = summarise(stream)
    assert (found.n_used, found.n_zero) == (37, 3)
    np.testing.assert_allclose(found.mean, v[~zero].mean(), atol=1e-7)
    with pytest.raises(ValueError, match="points must be distinct: 3 pairs"):
        summarise(stream, require_distinct=True)


def test_bad_values_and_empty_streams_are_refused(rng: np.random.Generator) -> None:
    v = rng.normal(size=(4, 4))
    v[1, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity: 1 pairs"):
        summarise(run(v))
    with pytest.raises(ValueError, match="at least one pair"):
        summarise(run(np.zeros((4, 4)), zero=np.ones((4, 4), bool)))
    found = summarise(run(rng.normal(size=(4, 4)), n_bins=0))
    with pytest.raises(ValueError, match="no histogram"):
        quantile(found, 0.5)
    with pytest.raises(ValueError, match=r"level=1\.5"):
        quantile(found, 1.5)
