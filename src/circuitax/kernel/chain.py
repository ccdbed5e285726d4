"""Low-rank maps as chains of factors, which are multiplied, if at all, in the cheapest order.

The largest entries of a chain's matrix are found block by block, and it is never held whole. Call
these searches under ``jit``; the values at the indices they return are differentiable.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from circuitax.display.tables import documented
from circuitax.kernel.checks import check_index


def multiply(factors: tuple[Array, ...]) -> Array:
    """The product of the factors in the cheapest order, leading axes counted."""
    plan = cheapest(tuple(factor.shape for factor in factors))

    def product(i: int, j: int) -> Array:
        if j == i + 1:
            return factors[i]
        cut = plan(i, j)[1]
        return product(i, cut) @ product(cut, j)

    return product(0, len(factors))


def cheapest(shapes: tuple[tuple[int, ...], ...]) -> Callable[[int, int], tuple[int, int]]:
    """``plan(i, j) -> (cost, cut)`` for the product of factors ``i … j-1``, in multiplications."""

    @functools.cache
    def plan(i: int, j: int) -> tuple[int, int]:
        if j == i + 1:
            return 0, i
        heads = math.prod(jnp.broadcast_shapes(*(shape[:-2] for shape in shapes[i:j])))
        ends = heads * shapes[i][-2] * shapes[j - 1][-1]
        return min(
            (plan(i, cut)[0] + plan(cut, j)[0] + ends * shapes[cut][-2], cut)
            for cut in range(i + 1, j)
        )

    return plan


DENSE_LIMIT = 2**24  # entries that `materialise` allows by default: 64 MiB in float32


@documented
class Chain(NamedTuple):
    """The map ``x ↦ x @ F_1 @ F_2 @ … @ F_n`` on rows, kept as its factors.

    Factor ``i`` is ``[*batch, d_{i-1}, d_i]``; leading axes broadcast as in ``matmul``, so that
    ``W_E [d_vocab, d_model]`` may stand beside the stacked ``W_V [n_heads, d_model, d_head]``.
    A ``Chain`` is a pytree, and every function of this module runs under jit, vmap and grad.
    Build one with :func:`chain_of`, which checks the shapes.

    ``first @ then`` composes in row order: it is the map that applies ``first``, then ``then``
    (a chain or a matrix). The result is a longer chain; nothing is multiplied. ``x + y`` and
    ``x - y`` are :func:`add`; ``c * x`` and ``x / c`` are :func:`scale`. NumPy cannot read a chain:
    :func:`materialise` makes its matrix.

    Attributes:
        factors: ``(F_1, …, F_n)``.

    Differs: the papers write column maps, where the same composition reads ``then · first``.
    """

    factors: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """``(*batch, d_0, d_n)``, the shape of the dense matrix."""
        return (*_batch(self.factors), self.factors[0].shape[-2], self.factors[-1].shape[-1])

    @property
    def dims(self) -> tuple[int, ...]:
        """``(d_0, d_1, …, d_n)``; the rank is at most the least of them."""
        return (self.factors[0].shape[-2], *(factor.shape[-1] for factor in self.factors))

    @property
    def T(self) -> "Chain":
        """The transposed map ``F_nᵀ … F_1ᵀ``."""
        return Chain(tuple(jnp.matrix_transpose(factor) for factor in reversed(self.factors)))

    def __matmul__(self, then: "Chain | ArrayLike") -> "Chain":
        return chain_of(*self.factors, *(then.factors if isinstance(then, Chain) else (then,)))

    def __rmatmul__(self, first: ArrayLike) -> "Chain":
        return chain_of(first, *self.factors)

    # A tuple's own would give a factor without a word.
    def __getitem__(self, index: Any) -> "Chain":  # type: ignore[override]
        """The map at integers of the leading axes, such as ``token_qk(model)[0, 1]``."""
        at, batch = index if isinstance(index, tuple) else (index,), self.shape[:-2]
        if len(at) > len(batch):
            raise IndexError(
                f"index {index} must be of the leading axes {batch}; chain.factors are the factors"
            )
        for axis, i in enumerate(at):
            check_index(f"index[{axis}]", i, batch[axis])

        def one(factor: Array) -> Array:
            first = len(batch) - (factor.ndim - 2)  # the axes that this factor does not have
            own = zip(at[first:], factor.shape, strict=False)
            return factor[tuple(i if size > 1 else 0 for i, size in own)]

        return Chain(tuple(map(one, self.factors)))

    def __repr__(self) -> str:
        batch = f"{list(self.shape[:-2])} maps, " if len(self.shape) > 2 else ""
        rank = min(self.dims)
        return f"Chain({batch}{' → '.join(map(str, self.dims))}, rank at most {rank})"

    # A tuple's own + and * would concatenate and repeat without a word.
    def __add__(self, other: "Chain") -> "Chain":  # type: ignore[override]
        return add(self, other)

    def __neg__(self) -> "Chain":
        return scale(self, -1)

    def __sub__(self, other: "Chain") -> "Chain":
        return add(self, -other)

    def __truediv__(self, divisor: ArrayLike) -> "Chain":
        return scale(self, 1 / divisor)

    def __mul__(self, factor: ArrayLike) -> "Chain":  # type: ignore[override]
        return scale(self, factor)

    def __rmul__(self, factor: ArrayLike) -> "Chain":  # type: ignore[misc, override]
        return scale(self, factor)

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse NumPy, which would stack the factors of a tuple.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"a chain of shape {self.shape} is no array: use materialise(chain) for its matrix, "
            "kernel.spectrum for its norm, or chain.factors"
        )


# Without it, NumPy would turn a chain on the right of `@` into an array instead of asking it.
Chain.__array_ufunc__ = None  # type: ignore[attr-defined]


def chain_of(*factors: ArrayLike) -> Chain:
    """A chain of the given factors, in the order in which they act on a row."""
    if not factors:
        raise ValueError("factors=() must hold at least one matrix")
    shapes = [jnp.shape(factor) for factor in factors]
    for i, shape in enumerate(shapes):
        if len(shape) < 2:
            raise ValueError(f"factors[{i}] has shape {shape}; it must be [*batch, d_in, d_out]")
        if i and shapes[i - 1][-1] != shape[-2]:
            raise ValueError(
                f"factors[{i}] has shape {shape}; its rows must match the "
                f"{shapes[i - 1][-1]} columns of factors[{i - 1}]"
            )
    try:
        jnp.broadcast_shapes(*(shape[:-2] for shape in shapes))
    except ValueError:
        raise ValueError(f"factors have shapes {shapes}; leading axes must broadcast") from None
    return Chain(tuple(jnp.asarray(factor) for factor in factors))


def apply(x: Float[Array, "*batch n d_in"], chain: Chain) -> Float[Array, "*out n d_out"]:
    """Rows ``x @ F_1 @ … @ F_n``, multiplied in the cheapest order."""
    return multiply((x, *chain.factors))


def scale(chain: Chain, factor: ArrayLike | Float[Array, "*batch"]) -> Chain:
    """``factor · chain``, written into the smallest factor; a batch of scales is allowed."""
    smallest = min(range(len(chain.factors)), key=lambda i: chain.factors[i].size)
    scaled = list(chain.factors)
    weight = jnp.asarray(factor, scaled[smallest].dtype)[..., None, None]
    # matmul-like broadcasting of the leading axes, spelled out because ranks may differ
    shape = jnp.broadcast_shapes(weight.shape, scaled[smallest].shape)
    scaled[smallest] = jnp.broadcast_to(weight, shape) * jnp.broadcast_to(scaled[smallest], shape)
    return Chain(tuple(scaled))


def add(first: Chain, second: Chain) -> Chain:
    """The sum of two maps, ``[L_1 | L_2] [R_1 ; R_2]``: a chain whose ranks add up.

    Shared outer factors are better kept outside: ``W_E @ (OV_1 + OV_2) @ W_U``.
    """
    if first.shape != second.shape:
        raise ValueError(f"second has shape {second.shape}; it must match first, {first.shape}")
    sides = [_thin(chain) for chain in (first, second)]
    left = jnp.concatenate([left for left, _ in sides], axis=-1)
    return Chain((left, jnp.concatenate([right for _, right in sides], axis=-2)))


def rows(chain: Chain, index: slice | ArrayLike) -> Chain:
    """Some rows of the matrix, ``M[index, :]``, still factored."""
    first = chain.factors[0][..., _one_axis(index), :]
    return Chain((first, *chain.factors[1:]))


def columns(chain: Chain, index: slice | ArrayLike) -> Chain:
    """Some columns of the matrix, ``M[:, index]``, still factored; ``index`` as in :func:`rows`."""
    last = chain.factors[-1][..., _one_axis(index)]
    return Chain((*chain.factors[:-1], last))


def entries(
    chain: Chain, row: Int[Array, " k"], column: Int[Array, " k"]
) -> Float[Array, "*batch k"]:
    """The entries ``M[row_i, column_i]``, differentiable; cost is k times the narrowest width."""
    if len(chain.factors) == 1:
        return chain.factors[0][..., row, column]
    left, right = halves(columns(rows(chain, row), column))
    return jnp.einsum("...kr,...rk->...k", left, right)


def diagonal(chain: Chain) -> Float[Array, "*batch k"]:
    """``diag(M)`` without M: in a token circuit, the effect of each token on itself."""
    if len(chain.factors) == 1:
        return jnp.diagonal(chain.factors[0], axis1=-2, axis2=-1)
    size = min(chain.dims[0], chain.dims[-1])
    left, right = halves(columns(rows(chain, slice(size)), slice(size)))
    return jnp.einsum("...kr,...rk->...k", left, right)


def halves(
    chain: Chain,
) -> tuple[Float[Array, "*left d_in rank"], Float[Array, "*right rank d_out"]]:
    """Two thin factors ``(L, R)`` with ``M = L R``, split at the narrowest inner dimension."""
    if len(chain.factors) == 1:
        raise ValueError("chain has one factor; halves needs two or more")
    inner = chain.dims[1:-1]
    cut = 1 + min(range(len(inner)), key=inner.__getitem__)
    return multiply(chain.factors[:cut]), multiply(chain.factors[cut:])


def materialise(chain: Chain, max_entries: int = DENSE_LIMIT) -> Float[Array, "*batch d_in d_out"]:
    """The dense matrix; for tests, figures and small models."""
    check_dense_size(chain.shape, max_entries)
    return multiply(chain.factors)


def check_dense_size(shape: tuple[int, ...], max_entries: int) -> None:
    """The size limit of every ``materialise``."""
    if math.prod(shape) > max_entries:
        raise ValueError(
            f"a dense matrix of shape {shape} exceeds max_entries={max_entries}; "
            "stay factored, take rows or columns, or raise the limit"
        )


def _thin(chain: Chain) -> tuple[Array, Array]:
    """``(L, R)``, both with the chain's full batch."""
    if len(chain.factors) == 1:
        eye = jnp.eye(chain.dims[1], dtype=chain.factors[0].dtype)
        left, right = chain.factors[0], eye
    else:
        left, right = halves(chain)
    batch = chain.shape[:-2]
    return (
        jnp.broadcast_to(left, (*batch, *left.shape[-2:])),
        jnp.broadcast_to(right, (*batch, *right.shape[-2:])),
    )


def _batch(factors: tuple[Array, ...]) -> tuple[int, ...]:
    return jnp.broadcast_shapes(*(factor.shape[:-2] for factor in factors))


def _one_axis(index: slice | ArrayLike) -> slice | Array:
    if isinstance(index, slice):
        return index
    if jnp.ndim(index) != 1:
        raise ValueError(f"index has {jnp.ndim(index)} axes; it must be a slice or have one axis")
    return jnp.asarray(index)


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
