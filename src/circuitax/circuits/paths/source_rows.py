"""Streams of many sources as rows: each source at the positions that it reaches, in blocks."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

_ROWS = 128  # of a block at least, which holds all positions once or several times
_OCTAVE = 4  # numbers of blocks that are told apart while they double


class SourceRows(NamedTuple):
    """The rows of all sources, and of one more that has nothing.

    Attributes:
        source: Of each row; the one that has nothing where a block is not full.
        place: Its position.
        begins: The first layer in which a source of each block is read; none where it has none.
        of: The row of each source and position: one that is always of zeros, where it has none.
    """

    source: Int[Array, " n_rows"]
    place: Int[Array, " n_rows"]
    begins: Int[Array, " n_blocks"]
    of: Int[Array, "n_sources+1 n_ctx"]

    def summed(self, met: Float[Array, "n n_rows"]) -> Float[Array, "n n_sources"]:
        """Sums over the rows of each source."""
        return met @ jax.nn.one_hot(self.source, self.of.shape[0] - 1, dtype=met.dtype)


def source_rows(first: Sequence[int], layers: Sequence[int], n_ctx: int) -> SourceRows:
    """Rows of sources from their first positions on."""
    n_rows, never = n_ctx * math.ceil(_ROWS / n_ctx), np.iinfo(np.int32).max
    sizes, begins = [*(n_ctx - at for at in first), 1], [*layers, never]
    blocks: list[list[int]] = []
    taken: list[int] = []
    for source in sorted(range(len(sizes)), key=lambda i: (begins[i], -sizes[i])):
        size = sizes[source]
        block = next((b for b, rows in enumerate(taken) if rows + size <= n_rows), len(blocks))
        if block == len(blocks):
            blocks.append([])
            taken.append(0)
        blocks[block].append(source)
        taken[block] += size
    n_blocks = math.ceil(2 ** (math.ceil(_OCTAVE * math.log2(len(blocks))) / _OCTAVE))
    sources, places = np.full((2, n_blocks * n_rows), [[len(first)], [0]])
    of = np.full((len(first) + 1, n_ctx), -1)
    for block, those in enumerate(blocks):
        row = block * n_rows
        for each in those:
            own = np.arange(n_ctx - sizes[each], n_ctx)
            of[each, own] = row + np.arange(sizes[each])
            sources[of[each, own]], places[of[each, own]] = each, own
            row += sizes[each]
    of[of < 0] = of[-1, -1]
    first_layers = [min(begins[each] for each in those) for those in blocks]
    first_layers += [never] * (n_blocks - len(blocks))
    return SourceRows(*map(jnp.asarray, (sources, places, first_layers, of)))


def of_blocks(
    begun: Bool[Array, " n_blocks"], product: Callable[..., PyTree[Array]], *rows: Array
) -> PyTree[Array]:
    """What is computed of the blocks of rows that have begun; of the others it is 0."""
    n_blocks = begun.shape[0]

    def none(*block: Array) -> PyTree[Array]:
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(product, *block))

    @jax.checkpoint
    def one(_: None, each: tuple[Array, list[Array]]) -> tuple[None, PyTree[Array]]:
        return None, jax.lax.cond(each[0], product, none, *each[1])

    blocks = [x.reshape(n_blocks, x.shape[0] // max(n_blocks, 1), *x.shape[1:]) for x in rows]
    _, done = jax.lax.scan(one, None, (begun, blocks))
    return jax.tree.map(lambda y: y.reshape(y.shape[0] * y.shape[1], *y.shape[2:]), done)
