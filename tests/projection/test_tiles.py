"""Tiles cover every pair once."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.stream import block_of, gram, pad_rows, tile_mask, upper_tiles


@pytest.mark.parametrize(("n", "block"), [(7, 3), (6, 3), (2, 5), (9, 1)])
def test_every_pair_is_in_exactly_one_tile(n: int, block: int) -> None:
    tiles = upper_tiles(n, block)
    seen = np.zeros((n + block, n + block), int)
    for i, j in zip(tiles.rows, tiles.columns, strict=True):
        mask = np.asarray(tile_mask(jnp.asarray(i), jnp.asarray(j), block, n))
        seen[i * block : (i + 1) * block, j * block : (j + 1) * block] += mask
    np.testing.assert_array_equal(seen[:n, :n], np.triu(np.ones((n, n), int), 1))
    assert seen.sum() == n * (n - 1) // 2


def test_blocks_of_padded_rows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(7, 2)).astype(np.float32)
    padded = pad_rows(jnp.asarray(x), 3)
    assert padded.shape == (9, 2)
    np.testing.assert_array_equal(block_of(padded, jnp.asarray(1), 3), x[3:6])
    np.testing.assert_array_equal(block_of(padded, jnp.asarray(2), 3)[1:], 0)
    np.testing.assert_allclose(gram(padded[:3], padded[3:6]), x[:3] @ x[3:6].T, atol=1e-6)


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ValueError, match="n_points=1"):
        upper_tiles(1, 3)
    with pytest.raises(ValueError, match="block=0"):
        upper_tiles(5, 0)
