"""Measures: both forms against NumPy, angles where arccos fails, pairs without a value."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.distortion import (
    Block,
    Measure,
    make_block,
    normalised,
    pair_values,
    tile_values,
)


def reference(measure: Measure, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """All ordered pairs, in float64, straight from the definitions."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    g, h = x @ x.T, y @ y.T
    nx, ny = np.sqrt(np.diag(g)), np.sqrt(np.diag(h))
    cos_x, cos_y = g / np.outer(nx, nx), h / np.outer(ny, ny)
    with np.errstate(all="ignore"):
        return {
            Measure.squared_distance: ((y[:, None] - y[None]) ** 2).sum(-1)
            / ((x[:, None] - x[None]) ** 2).sum(-1)
            - 1,
            Measure.distance: np.linalg.norm(y[:, None] - y[None], axis=-1)
            / np.linalg.norm(x[:, None] - x[None], axis=-1)
            - 1,
            Measure.inner: (h - g) / np.outer(nx, nx),
            Measure.cosine: cos_y - cos_x,
            Measure.angle: np.arccos(np.clip(cos_y, -1, 1)) - np.arccos(np.clip(cos_x, -1, 1)),
        }[measure]


@pytest.mark.parametrize("measure", list(Measure))
def test_both_forms_agree_with_numpy(measure: Measure, x64: None, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(8, 5)), rng.normal(size=(8, 3))
    block = make_block(jnp.asarray(x), jnp.asarray(y))
    a = normalised(block) if measure is Measure.angle else block
    tile = tile_values(measure, a, a)
    i, j = np.triu_indices(8, 1)
    expected = reference(measure, x, y)[i, j]
    assert not np.asarray(tile.near)[i, j].any()
    np.testing.assert_allclose(np.asarray(tile.value)[i, j], expected, rtol=1e-12, atol=1e-12)
    pairs = pair_values(measure, Block(*(z[i] for z in block)), Block(*(z[j] for z in block)))
    np.testing.assert_allclose(pairs.value, expected, rtol=1e-12, atol=1e-12)
    assert not np.asarray(pairs.zero).any()


def test_small_angles_are_exact_where_arccos_is_not() -> None:
    theta = 1e-4
    x = np.array([[1.0, 0.0], [np.cos(theta), np.sin(theta)]], np.float32)
    y = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    block = make_block(jnp.asarray(x), jnp.asarray(y))
    pair = pair_values(
        Measure.angle, Block(*(z[:1] for z in block)), Block(*(z[1:] for z in block))
    )
    np.testing.assert_allclose(pair.value[0], np.pi / 2 - theta, atol=1e-7)
    assert abs(np.arccos(np.float32(x[0] @ x[1])) - theta) > 1e-5
    unit = normalised(block)
    assert bool(tile_values(Measure.angle, unit, unit).near[0, 1])


def test_pairs_without_a_value_are_marked_and_never_divided_by() -> None:
    x = jnp.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]])
    y = jnp.array([[0.0], [1.0], [1.0]])
    block = make_block(x, y)
    first, second = Block(*(z[:2] for z in block)), Block(*(z[1:] for z in block))
    distance = pair_values(Measure.squared_distance, first, second)
    np.testing.assert_array_equal(distance.zero, [False, True])
    for measure in (Measure.inner, Measure.cosine, Measure.angle):
        pair = pair_values(measure, first, second)
        np.testing.assert_array_equal(pair.zero, [True, False])
        a = normalised(block) if measure is Measure.angle else block
        tile = tile_values(measure, a, a)
        np.testing.assert_array_equal(tile.zero[0], True)
        assert np.isfinite(np.asarray(tile.value)).all()
        assert np.isfinite(np.asarray(pair.value)).all()
    near = tile_values(Measure.squared_distance, block, block)
    assert bool(near.near[1, 2]) and np.isfinite(np.asarray(near.value)).all()
