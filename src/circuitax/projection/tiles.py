"""All pairs a < b in square tiles, so that no array of size N×N is ever held."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.checks import check_range


class Tiles(NamedTuple):
    """Tile coordinates ``(i, j)``, ``i <= j``, of an N×N table cut in squares of ``block``."""

    rows: Int[np.ndarray, " n_tiles"]
    columns: Int[np.ndarray, " n_tiles"]


def upper_tiles(n_points: int, block: int) -> Tiles:
    """All tiles on or above the diagonal."""
    if n_points < 2:
        raise ValueError(f"n_points={n_points} must be at least 2 to make a pair")
    check_range("block", block, "[1, inf)")
    rows, columns = np.triu_indices(-(-n_points // block))
    return Tiles(rows.astype(np.int32), columns.astype(np.int32))


def tile_mask(
    row: Int[Array, ""], column: Int[Array, ""], block: int, n_points: int
) -> Bool[Array, "{block} {block}"]:
    """True for the pairs ``a < b < n_points`` of one tile."""
    offsets = jnp.arange(block)
    a = row * block + offsets
    b = column * block + offsets
    return (a[:, None] < b[None, :]) & (b < n_points)[None, :]


def pad_rows(x: Float[Array, "n_points dim"], block: int) -> Float[Array, "n_padded dim"]:
    """Rows padded with zeros up to a multiple of ``block``."""
    return jnp.pad(x, ((0, -x.shape[0] % block), (0, 0)))


def block_of(x: Float[Array, "n ..."], index: Int[Array, ""], block: int) -> Float[Array, "b ..."]:
    """Rows ``index * block ... (index + 1) * block``."""
    return jax.lax.dynamic_slice_in_dim(x, index * block, block)


def gram(x: Float[Array, "a dim"], y: Float[Array, "b dim"]) -> Float[Array, "a b"]:
    """All inner products of two blocks, at the highest precision of the backend."""
    return jnp.matmul(x, y.T, precision="highest")
