"""Statistics of pairs in one pass against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.stream import (
    add_count,
    add_term,
    count_value,
    empty_stream,
    quantile,
    sum_value,
    summarise,
    tile_mask,
    update,
    upper_tiles,
    zero_count,
    zero_sum,
)


@pytest.mark.parametrize(("n", "block"), [(7, 3), (6, 3), (2, 5), (9, 1)])
def test_every_pair_is_in_exactly_one_tile(n: int, block: int) -> None:
    tiles = upper_tiles(n, block)
    seen = np.zeros((n + block, n + block), int)
    for i, j in zip(tiles.rows, tiles.columns, strict=True):
        mask = np.asarray(tile_mask(jnp.asarray(i), jnp.asarray(j), block, n))
        seen[i * block : (i + 1) * block, j * block : (j + 1) * block] += mask
    np.testing.assert_array_equal(seen[:n, :n], np.triu(np.ones((n, n), int), 1))
    assert seen.sum() == n * (n - 1) // 2


def test_counts_carry_into_the_high_limb() -> None:
    steps = jnp.array([[2**31 - 1, 5]] * 7, jnp.uint32)
    count, _ = jax.lax.scan(lambda c, n: (add_count(c, n), None), zero_count((2,)), steps)
    np.testing.assert_array_equal(count_value(count), [7 * (2**31 - 1), 35])


def test_compensated_sum_keeps_what_a_plain_sum_loses(rng: np.random.Generator) -> None:
    terms = np.concatenate([[1e6], rng.uniform(0, 0.01, 20_000), [-1e6]]).astype(np.float32)
    exact = terms.astype(np.float64).sum()
    total, _ = jax.lax.scan(lambda s, t: (add_term(s, t), None), zero_sum(), jnp.asarray(terms))
    assert abs(sum_value(total) - exact) < 1e-5 * exact
    plain, _ = jax.lax.scan(lambda s, t: (s + t, None), jnp.zeros(()), jnp.asarray(terms))
    assert abs(float(plain) - exact) > 1e-2 * exact


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
