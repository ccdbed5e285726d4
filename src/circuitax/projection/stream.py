"""Statistics of all pairs in one pass: square tiles, exact counts, extremes, moments.

Ten thousand points have 5·10^7 pairs, a hundred thousand 5·10^9: more than a 32-bit counter holds
and more terms than a plain float32 sum keeps apart. Both are needed without switching JAX to 64
bits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from circuitax.display.tables import NumberTable, counted, documented, shortened
from circuitax.kernel.checks import check_range
from circuitax.kernel.shown import known, tabled


class Tiles(NamedTuple):
    """Tile coordinates ``(i, j)``, ``i <= j``, of an N×N table cut in squares of ``block``."""

    rows: Int[np.ndarray, " n_tiles"]
    columns: Int[np.ndarray, " n_tiles"]


def upper_tiles(n_points: int, block: int) -> Tiles:
    """All tiles on or above the diagonal."""
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


@documented
class WideCount(NamedTuple):
    """A 64-bit count as two 32-bit limbs: ``high * 2^32 + low``; `count_value` reads it.

    Attributes:
        low: The lower limb.
        high: The upper limb.
    """

    low: UInt32[Array, "*shape"]
    high: UInt32[Array, "*shape"]


@documented
class CompensatedSum(NamedTuple):
    """A running sum and its accumulated rounding error (Neumaier); `sum_value` adds them.

    Attributes:
        value: The sum as rounded at every step.
        error: What rounding took from it.
    """

    value: Float[Array, "*shape"]
    error: Float[Array, "*shape"]


def zero_count(shape: tuple[int, ...] = ()) -> WideCount:
    """A count of 0."""
    return WideCount(jnp.zeros(shape, jnp.uint32), jnp.zeros(shape, jnp.uint32))


def add_count(count: WideCount, n: Shaped[Array, "*shape"]) -> WideCount:
    """The count plus ``n``, ``0 <= n < 2^32``."""
    low = count.low + n.astype(jnp.uint32)
    return WideCount(low, count.high + (low < count.low).astype(jnp.uint32))


def count_value(count: WideCount) -> Int[np.ndarray, "*shape"]:
    """The count as NumPy int64, on the host."""
    high, low = np.asarray(count.high, np.int64), np.asarray(count.low, np.int64)
    return np.asarray(high * 2**32 + low)


def zero_sum(shape: tuple[int, ...] = ()) -> CompensatedSum:
    """An empty sum."""
    return CompensatedSum(jnp.zeros(shape), jnp.zeros(shape))


def add_term(total: CompensatedSum, term: Float[Array, "*shape"]) -> CompensatedSum:
    """The sum plus one term; its error does not grow with the number of terms.

    Source: Neumaier 1974 (improved Kahan–Babuška algorithm).
    """
    value = total.value + term
    larger = jnp.abs(total.value) >= jnp.abs(term)
    lost = jnp.where(larger, (total.value - value) + term, (term - value) + total.value)
    return CompensatedSum(value, total.error + lost)


def sum_value(total: CompensatedSum) -> Float[np.ndarray, "*shape"]:
    """The corrected sum as NumPy float64, on the host."""
    return np.asarray(np.asarray(total.value, np.float64) + np.asarray(total.error, np.float64))


COLUMNS = 7  # of the printed table, at most


@tabled
@documented
class Stream(NamedTuple):
    """State of the pass. Leading axes, such as one over maps, come from `jax.vmap`.

    Attributes:
        n_used: Values in the statistics.
        n_zero: Pairs without a value: distance, norm or image norm zero.
        n_unresolved: Pairs too close for the Gram form and past the capacity.
        n_nonfinite: NaN or infinite values: bad input.
        total: Sum of the values.
        total_sq: Sum of their squares.
        low: The lowest value.
        high: The highest value.
        below: ``[n_bounds]``, values under the lower bound.
        above: ``[n_bounds]``, values over the upper bound.
        histogram: ``[n_bins + 2]``, the first and the last for values outside the limits.
        limits: Range of the histogram, as given to the pass.
    """

    n_used: WideCount
    n_zero: WideCount
    n_unresolved: WideCount
    n_nonfinite: WideCount
    total: CompensatedSum
    total_sq: CompensatedSum
    low: Float[Array, "*maps"]
    high: Float[Array, "*maps"]
    below: WideCount
    above: WideCount
    histogram: WideCount
    limits: Float[Array, "*maps 2"]

    def _table(self) -> NumberTable | None:
        if not known(*self):
            return None
        found, bad = _statistics(self), count_value(self.n_nonfinite).sum()
        title = f"Stream of {counted(found.n_used.sum(), 'pair')}"
        note = "cx.projection.stream.summarise has the numbers"
        return _shown(title, found, note, f", {bad:,} not finite")


@tabled
@documented
class Summary(NamedTuple):
    """Statistics of a pass, in NumPy; the leading axes are those of the stream.

    Attributes:
        n_used: Values in the statistics.
        n_zero: Pairs without a value.
        n_unresolved: Pairs too close for the Gram form and past the capacity.
        mean: Of the values.
        std: Their standard deviation.
        low: The lowest value.
        high: The highest value.
        below: Values under each lower bound.
        above: Values over each upper bound.
        histogram: Counts; the first and the last cell are for values outside the limits.
        edges: Between its cells; `quantile` returns the two of them that a quantile lies between.
    """

    n_used: Int[np.ndarray, "*maps"]
    n_zero: Int[np.ndarray, "*maps"]
    n_unresolved: Int[np.ndarray, "*maps"]
    mean: Float[np.ndarray, "*maps"]
    std: Float[np.ndarray, "*maps"]
    low: Float[np.ndarray, "*maps"]
    high: Float[np.ndarray, "*maps"]
    below: Int[np.ndarray, "*maps n_bounds"]
    above: Int[np.ndarray, "*maps n_bounds"]
    histogram: Int[np.ndarray, "*maps n_cells"]
    edges: Float[np.ndarray, " n_edges"]

    def _table(self) -> NumberTable:
        title = f"Summary of {counted(self.n_used.sum(), 'pair')}"
        return _shown(title, self, "fields: " + ", ".join(self._fields))


def _shown(title: str, found: Summary, note: str, bad: str = "") -> NumberTable:
    columns = {"low": found.low, "mean": found.mean, "high": found.high}
    if found.histogram.shape[-1] > 2:
        # To a cell of the histogram, of which this is the middle.
        with np.errstate(invalid="ignore"):  # of no pair there is none
            median = quantile(found, 0.5).mean(axis=0)
        columns = {"low": found.low, "median": median} | columns
    columns["deviation"] = found.std
    bounds = []
    for i, (below, above) in enumerate(zip(found.below.T, found.above.T, strict=True)):
        if np.ndim(found.low):
            columns |= {f"below {i}": below.T, f"above {i}": above.T}
        else:
            bounds.append(f"  bound {i}: {below:,} below, {above:,} above")
    columns = dict(list(columns.items())[:COLUMNS])
    rows = [
        (f"map {', '.join(map(str, at))}".rstrip(), [column[at] for column in columns.values()])
        for at in np.ndindex(np.shape(found.low))
    ]
    zero, unresolved = found.n_zero.sum(), found.n_unresolved.sum()
    left_out = f"left out: {zero:,} without a value, {unresolved:,} unresolved{bad}"
    return NumberTable(title, tuple(columns), rows, [*shortened(bounds, 4), left_out, note])


def empty_stream(n_bounds: int, n_bins: int) -> Stream:
    """The state before the first value."""
    zero = zero_count()
    return Stream(
        n_used=zero,
        n_zero=zero,
        n_unresolved=zero,
        n_nonfinite=zero,
        total=zero_sum(),
        total_sq=zero_sum(),
        low=jnp.asarray(jnp.inf),
        high=jnp.asarray(-jnp.inf),
        below=zero_count((n_bounds,)),
        above=zero_count((n_bounds,)),
        histogram=zero_count((n_bins + 2,)),
        limits=jnp.zeros(2),
    )


def update(
    stream: Stream,
    values: Float[Array, "rows columns"],
    valid: Bool[Array, "rows columns"],
    zero: Bool[Array, "rows columns"],
    bounds: Float[Array, "n_bounds 2"],
    limits: Float[Array, "2"],
    n_unresolved: Shaped[Array, ""] | int = 0,
) -> Stream:
    """The stream after one tile of values."""
    used = valid & jnp.isfinite(values)
    kept = jnp.where(used, values, 0)
    # Columns first: this order vectorises, and it is pairwise enough for a tile.
    n_used = used.sum(0).sum()
    n_bins = stream.histogram.low.shape[0] - 2
    outside = [
        (
            (used & (values < bounds[k, 0])).sum(0).sum(),
            (used & (values > bounds[k, 1])).sum(0).sum(),
        )
        for k in range(bounds.shape[0])
    ]
    below = jnp.array([b for b, _ in outside], jnp.uint32).reshape(bounds.shape[0])
    above = jnp.array([a for _, a in outside], jnp.uint32).reshape(bounds.shape[0])
    histogram = stream.histogram
    if n_bins:
        scaled = (kept - limits[0]) * (n_bins / (limits[1] - limits[0]))
        cell = jnp.clip(jnp.floor(scaled), -1, n_bins).astype(jnp.int32) + 1
        cell = jnp.where(used, cell, n_bins + 2)  # out of bounds: dropped by the scatter
        counts = jnp.zeros(n_bins + 2, jnp.uint32).at[cell.ravel()].add(1, mode="drop")
        histogram = add_count(histogram, counts)
    return Stream(
        n_used=add_count(stream.n_used, n_used),
        n_zero=add_count(stream.n_zero, zero.sum(0).sum()),
        n_unresolved=add_count(stream.n_unresolved, jnp.asarray(n_unresolved)),
        n_nonfinite=add_count(stream.n_nonfinite, (valid & ~used).sum(0).sum()),
        total=add_term(stream.total, kept.sum(0).sum()),
        total_sq=add_term(stream.total_sq, (kept * kept).sum(0).sum()),
        low=jnp.minimum(stream.low, jnp.where(used, values, jnp.inf).min(0).min()),
        high=jnp.maximum(stream.high, jnp.where(used, values, -jnp.inf).max(0).max()),
        below=add_count(stream.below, below),
        above=add_count(stream.above, above),
        histogram=histogram,
        limits=limits.astype(stream.limits.dtype),
    )


def summarise(stream: Stream, *, require_distinct: bool = False) -> Summary:
    """The statistics of a finished stream, on the host."""
    found = _statistics(stream)
    if n_bad := int(count_value(stream.n_nonfinite).sum()):
        raise ValueError(f"points or images hold NaN or infinity: {n_bad} pairs have no distortion")
    if require_distinct and (found.n_zero.any() or found.n_unresolved.any()):
        raise ValueError(
            f"points must be distinct: {int(found.n_zero.max())} pairs are at distance zero, and "
            f"{int(found.n_unresolved.max())} too close to tell"
        )
    if not found.n_used.all():
        raise ValueError("points must hold at least one pair at a non-zero distance; none was used")
    return found


def _statistics(stream: Stream) -> Summary:
    n_used = count_value(stream.n_used)
    with np.errstate(invalid="ignore"):  # without a value there is no mean
        mean = sum_value(stream.total) / n_used
        variance = sum_value(stream.total_sq) / n_used - mean**2
    histogram = count_value(stream.histogram)
    # Maps differ, and what they are given does not.
    start, stop = np.asarray(stream.limits, np.float64).reshape(-1, 2)[0]
    return Summary(
        n_used=n_used,
        n_zero=count_value(stream.n_zero),
        n_unresolved=count_value(stream.n_unresolved),
        mean=np.asarray(mean),
        std=np.asarray(np.sqrt(np.maximum(variance, 0))),
        low=np.asarray(stream.low, np.float64),
        high=np.asarray(stream.high, np.float64),
        below=count_value(stream.below),
        above=count_value(stream.above),
        histogram=histogram,
        edges=np.linspace(start, stop, histogram.shape[-1] - 1),
    )


def quantile(summary: Summary, level: float) -> Float[np.ndarray, "2 *maps"]:
    """The two edges of the histogram cell that holds a quantile: it lies between them."""
    check_range("level", level, "[0, 1]")
    if summary.histogram.shape[-1] <= 2:
        raise ValueError("summary has no histogram: run the pass with n_bins of at least 1")
    rank = np.maximum(1, np.ceil(level * summary.n_used))
    cell = (np.cumsum(summary.histogram, -1) < rank[..., None]).sum(-1)
    inner = summary.edges
    below = np.where(cell == 0, summary.low, inner[np.clip(cell - 1, 0, len(inner) - 1)])
    above = np.where(cell > len(inner) - 1, summary.high, inner[np.clip(cell, 0, len(inner) - 1)])
    return np.stack([np.maximum(below, summary.low), np.minimum(above, summary.high)])
