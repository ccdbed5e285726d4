"""The largest entries of a chain's matrix, found block by block; the matrix is never held whole.

Call these under ``jit``. A search returns indices; the values at those indices are differentiable.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from circuitax.kernel.chain import Chain, entries, halves, rows

Result = TypeVar("Result")
BLOCK_ENTRIES = 2**22  # entries held at a time: 16 MiB in float32, about a CPU's cache
_TILE = 512  # columns that one maximum stands for in the search along a row


class TopEntries(NamedTuple):
    """The k largest entries of a matrix, in falling order; ties in no particular order."""

    values: Float[Array, "*batch k"]
    rows: Int[Array, "*batch k"]
    columns: Int[Array, "*batch k"]


class TopColumns(NamedTuple):
    """For each row of a matrix its k largest entries, in falling order."""

    values: Float[Array, "*batch n k"]
    columns: Int[Array, "*batch n k"]


def top_k(chain: Chain, k: int, *, block_entries: int = BLOCK_ENTRIES) -> TopEntries:
    """The k largest entries of the whole matrix.

    There are two passes, since the k largest entries lie in the k rows of largest maximum. The
    first pass keeps one maximum per row, the second searches those k rows only. Memory is
    ``block_entries`` plus ``k²``; leading axes are looped over, not vmapped.
    For the k smallest, take ``top_k(scale(chain, -1.0), k)``.
    """
    n, m = chain.shape[-2:]
    _require_count(k, n * m)

    def search(one: Chain) -> TopEntries:
        fixed = jax.lax.stop_gradient(one)
        maxima = _map_rows(lambda row, _: jnp.max(row), fixed, block_entries)
        best = jax.lax.top_k(maxima, min(k, n))[1]
        found = top_k_columns(rows(fixed, best), min(k, m), block_entries=block_entries)
        flat = jax.lax.top_k(found.values.ravel(), k)[1]
        row, column = best[flat // min(k, m)], found.columns.ravel()[flat]
        return TopEntries(entries(one, row, column), row, column)

    return _over_batch(search, chain)


def top_k_columns(chain: Chain, k: int, *, block_entries: int = BLOCK_ENTRIES) -> TopColumns:
    """The k largest entries of every row."""
    _require_count(k, chain.shape[-1])

    def search(one: Chain) -> TopColumns:
        return TopColumns(*_map_rows(lambda row, _: _top_k_of_row(row, k), one, block_entries))

    return _over_batch(search, chain)


def diagonal_rank(chain: Chain, *, block_entries: int = BLOCK_ENTRIES) -> Int[Array, "*batch n"]:
    """Rank of the diagonal entry ``M_ii`` in row i: the number of larger entries, from 0.

    On an OV table ``[source, out]``, ``mean(diagonal_rank < 5)`` is the top-5 copying accuracy.
    """
    if chain.dims[0] > chain.dims[-1]:
        raise ValueError(f"chain has shape {chain.shape}; every row needs a diagonal entry")

    def search(one: Chain) -> Array:
        # the diagonal is read from the same product, since another order of summation could
        # place it above or below itself by a rounding error
        return _map_rows(lambda row, i: jnp.sum(row > row[i]), one, block_entries)

    return _over_batch(search, chain)


def _top_k_of_row(row: Array, k: int) -> tuple[Array, Array]:
    m = row.shape[0]
    n_tiles = -(-m // _TILE)
    if n_tiles == 1 or k > _TILE:
        values, columns = jax.lax.top_k(row, k)
        return values, columns
    # selection sees no gradient: only the chosen values do, and nothing V-sized is stored
    padded = jnp.pad(row, (0, n_tiles * _TILE - m), constant_values=-jnp.inf)
    grid = padded.reshape(n_tiles, _TILE)
    fixed = jax.lax.stop_gradient(grid)
    lanes = jax.lax.top_k(jnp.max(fixed, axis=0), k)[1]
    chosen = jax.lax.top_k(fixed[:, lanes].ravel(), k)[1]
    tile, lane = chosen // k, lanes[chosen % k]
    return grid[tile, lane], tile * _TILE + lane


def _map_rows(reduce: Callable[[Array, Array], Result], chain: Chain, block_entries: int) -> Result:
    """``reduce(row, index)`` for every row of the matrix, a block of rows at a time."""
    n, m = chain.shape
    if len(chain.factors) == 1:
        left, right = chain.factors[0], None
    else:
        left, right = halves(chain)

    def one_row(at: tuple[Array, Array]) -> Result:
        thin, index = at
        return reduce(thin if right is None else thin @ right, index)

    block_rows = min(n, max(1, block_entries // m))
    return jax.lax.map(one_row, (left, jnp.arange(n)), batch_size=block_rows)


def _over_batch(search: Callable[[Chain], Result], chain: Chain) -> Result:
    """``search`` on each matrix of a batched chain, one after the other."""
    batch = chain.shape[:-2]
    if not batch:
        return search(chain)

    def one(i: Array) -> Result:
        return _over_batch(search, Chain(tuple(_take(f, i, len(batch)) for f in chain.factors)))

    return jax.lax.map(one, jnp.arange(batch[0]))


def _take(factor: Array, i: Array, n_axes: int) -> Array:
    if factor.ndim - 2 < n_axes:
        return factor
    return factor[0] if factor.shape[0] == 1 else factor[i]


def _require_count(k: int, most: int) -> None:
    if not 1 <= k <= most:
        raise ValueError(f"k={k} must be from 1 to {most}")
