"""One step of the ledger's search: all heads, or heads and sources, that may precede a path.

A search walks from the logit back. A partial path is a row over positions (or one position with a
coefficient) and a direction in the value space of its first head; a step puts one more head in
front of it. It carries what rounding may have done to it (`host_model`), so that values come with
errors, and bounds hold for the exact paths.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.host_model import FLOOR, HostModel, floor, lost, norm, unit_of
from circuitax.circuits.ledger.path_bounds import CACHED, Moments, Norms, PathBounds


class Batch(NamedTuple):
    """Partial paths: values by source, an upper bound on their extensions, and their state.

    Attributes:
        value: ``[rows, n_sources]``: the path from the embedding, and from each MLP that acts
            before.
        n_sources: How many of these there are; the rest of a row is 0.
        error: How far the exact values may be from these.
        hop: Code of the last step taken; -1 at the root.
    """

    value: np.ndarray
    n_sources: np.ndarray
    error: np.ndarray
    bound: np.ndarray
    hop: np.ndarray
    state: tuple[np.ndarray, ...]


def take(batch: Batch, which: np.ndarray) -> Batch:
    """Some rows of a batch."""
    state = tuple(part[which] for part in batch.state)
    values = (batch.value[which], batch.n_sources[which], batch.error[which])
    return Batch(*values, batch.bound[which], batch.hop[which], state)


def join(batches: list[Batch]) -> Batch:
    """The rows of several batches, at least one."""
    columns = zip(*(batch.state for batch in batches), strict=True)
    return Batch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.n_sources for batch in batches]),
        np.concatenate([batch.error for batch in batches]),
        np.concatenate([batch.bound for batch in batches]),
        np.concatenate([batch.hop for batch in batches]),
        tuple(np.concatenate(column) for column in columns),
    )


class Directions(NamedTuple):
    """Directions of partial paths ``[rows, d]``, and bounds on their errors."""

    u: np.ndarray
    error: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Upper bounds on the norms of the exact directions."""
        return norm(self.u) + self.error

    def at(self, *which: np.ndarray) -> "Directions":
        """Some of the rows."""
        return Directions(self.u[which], self.error[which])

    def before(self, u: np.ndarray, frobenius: np.ndarray, spectral: np.ndarray) -> "Directions":
        """The directions in front of linear maps, which took them to ``u``."""
        size = self.size
        error = spectral * self.error + lost(self.u.shape[-1]) * frobenius * size
        return Directions(u, error + floor(size, frobenius))

    def reach(self, moments: "_Forms") -> np.ndarray:
        """Bounds on ``|y · u|`` for all y of each head, ``[heads, rows, positions]``."""
        unit = unit_of(np.abs(self.u).max(axis=-1, initial=0.0))[..., None]
        squares = np.empty((*self.error.shape, moments.flat.shape[1]))
        each = zip(self.u / unit, moments.flat, moments.missed, squares, strict=True)
        for u, flat, missed, found in each:
            outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
            np.maximum(outer @ flat.T, 0, out=found)
            found += (u**2).sum(axis=1)[:, None] * missed
        error, size = self.error[..., None], moments.size[:, None]
        return np.sqrt(squares) * unit + floor(squares) + error * np.sqrt(size) + floor(error, size)


class _Forms(NamedTuple):
    """Matrices M with ``y yᵀ <= M``, as they are multiplied, and bounds on errors and norms."""

    flat: np.ndarray  # [heads, positions, d * d]
    missed: np.ndarray  # [heads, positions]
    size: np.ndarray

    def of(self, heads: slice) -> "_Forms":
        """Those of some heads."""
        return _Forms(*(part[heads] for part in self))


def _forms(M: np.ndarray, error: np.ndarray | float = 0.0) -> _Forms:
    """Forms of ``[heads, positions, d, d]``; the exact ones exceed them by the error at most."""
    d = M.shape[-1]
    size = norm(M, (2, 3)) + error
    flat = M.reshape(*M.shape[:2], d * d)
    return _Forms(flat, lost(d * d) * size + error + floor(size), size)


class _Steps:
    """Common part of both kinds of steps."""

    # Partial paths that are extended at once; None for any number.
    largest_batch: int | None = None

    def __init__(self, model: HostModel, norms: Norms, position: int, w: np.ndarray) -> None:
        self.model, self.position, self.norms = model, position, norms
        self.n_ctx = len(model.direct)
        # Division by the scale of the final norm is all that happened to w.
        self.w = Directions(w[None], lost(0) * norm(w[None]))
        # Of everything a value is made of, but its direction.
        self.rounding = lost(self.n_ctx * (len(model.reads) + 1) + model.b_V.shape[2])

    def direct(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the direct paths and their errors, ``[1, n_sources]``."""
        written, w = self.model.written()[:, self.position], self.w
        missed = self.model.written_error()[:, self.position]
        size = norm(written) + missed
        error = size * (w.error + lost(written.shape[1]) * w.size) + missed * w.size
        return (written @ w.u[0])[None], (error + floor(size, w.size))[None]

    def ends(self, heads: slice, through: Directions) -> Directions:
        """Directions behind heads, in front of their ``W_O``: ``[heads, rows, d_value]``."""
        u = through.u @ np.swapaxes(self.model.W_O[heads], 1, 2)
        return through.before(u, self.norms.O[heads, None], self.norms.O_spectral[heads, None])

    def through(self, last: np.ndarray, at: Directions) -> Directions:
        """Directions in the stream: ``W_V u`` behind a head, w itself at the root."""
        if last.size and last[0] < 0:  # the root is always expanded alone
            return at
        u = np.empty((len(last), self.model.W_V.shape[1]))
        for head in np.unique(last):
            which = np.flatnonzero(last == head)
            u[which] = at.u[which] @ self.model.W_V[head].T
        return at.before(u, self.norms.V[last], self.norms.V_spectral[last])

    def preceded(self, last: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Layers, their heads, and the partial paths that these may precede."""
        layer_of = np.where(last < 0, len(self.model.reads), self.model.layer[last])
        for layer in range(int(layer_of.max(initial=0))):
            heads, which = self.model.heads(layer), np.flatnonzero(layer < layer_of)
            some = max(CACHED // self.model.reads[layer][..., 0].size, 64)
            for start in range(0, len(which), some):
                yield layer, heads, which[start : start + some]

    def reading(self, layer: int, u: Directions) -> tuple[np.ndarray, np.ndarray]:
        """Read-outs for a unit of weight, and their errors, ``[heads, rows, n_sources, src]``."""
        n_heads, n_sources, n_ctx, d = self.model.reads[layer].shape
        flat = self.model.reads[layer].reshape(n_heads, -1, d)
        read = (u.u @ np.swapaxes(flat, 1, 2)).reshape(n_heads, -1, n_sources, n_ctx)
        size, missed = (of[layer][:, None] for of in (self.norms.read, self.norms.read_error))
        own, whole = (x[..., None, None] for x in (self.rounding * u.size + u.error, u.size))
        return read, own * size + whole * missed + floor(whole, size)

    def bias(self, heads: slice, u: Directions) -> np.ndarray:
        """Error of the heads' biases for a unit of weight, ``[heads, rows, dest]``."""
        own, size = (self.rounding * u.size + u.error)[..., None], self.norms.b_V[heads, None]
        return own * size + floor(u.size[..., None], size)


class HeadSteps(_Steps):
    """Steps of head paths: head index, row over positions ``[n_ctx]``, direction in value space."""

    def __init__(self, model: HostModel, bounds: PathBounds, position: int, w: np.ndarray) -> None:
        super().__init__(model, bounds.norms, position, w)
        self.at_end, self.at_head = _forms(bounds.at_end[:, None]), _forms(bounds.at_head)
        self.size, self.some = np.abs(model.A), (model.A != 0).astype(float)

    def root(self) -> Batch:
        """The direct paths."""
        value, error = self.direct()
        row = np.zeros((1, self.n_ctx))
        row[0, self.position] = 1
        state = (np.array([-1]), row, row, *self.w)
        ends = self.ends(slice(None), self.w).reach(self.at_end)
        bound = np.array([ends.max(initial=0.0)])
        return Batch(value, np.array([self.model.n_sources]), error, bound, np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, row, size, *direction = state
        through = self.through(last, Directions(*direction))
        batches, parents = [], []
        for layer, heads, which in self.preceded(last):
            u = self.ends(heads, through.at(which))
            before, size_before = row[which], size[which]
            after, reach = before @ self.model.A[heads], (size_before > 0) @ self.some[heads]
            # What underflows is no smaller than that.
            size_after = size_before @ self.size[heads] + FLOOR * reach
            read, missed = self.reading(layer, u)
            n_heads, n_rows, n_sources, _ = read.shape
            values, errors = np.zeros((2, n_heads, n_rows, self.model.n_sources))
            values[..., :n_sources] = np.einsum("hbs,hbms->hbm", after, read)
            errors[..., :n_sources] = np.einsum("hbs,hbms->hbm", size_after, missed)
            if self.norms.b_V[heads].any():
                of_bias = u.u @ np.swapaxes(self.model.b_V[heads], 1, 2)
                values[..., 0] += np.einsum("bt,hbt->hb", before, of_bias)
                errors[..., 0] += np.einsum("bt,hbt->hb", size_before, self.bias(heads, u))
            mass = np.abs(after) + self.rounding * size_after + FLOOR * reach
            bound = _mixed(mass, u.reach(self.at_head.of(heads)))
            codes = np.repeat(np.arange(heads.start, heads.stop), n_rows)
            counts = np.full(len(codes), n_sources)
            of_rows = (values, errors, bound, after, size_after, *u)
            values, errors, bound, *states = (x.reshape(len(codes), *x.shape[2:]) for x in of_rows)
            batches.append(Batch(values, counts, errors, bound, codes, (codes, *states)))
            parents.append(np.tile(which, n_heads))
        return _joined(self.model, batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return hops, ()


class PositionSteps(_Steps):
    """Steps of position paths: head index, source position, coefficient, value-space direction.

    A hop is coded as ``head · (n_ctx + 1) + source``, with source n_ctx for the head's bias.
    """

    def __init__(self, model: HostModel, moments: Moments, position: int, w: np.ndarray) -> None:
        super().__init__(model, moments.norms, position, w)
        self.at_end = _forms(moments.at_end[None, None], moments.end_error)
        self.at_head = _forms(moments.at_head, moments.head_error)

    def root(self) -> Batch:
        """The direct paths."""
        value, error = self.direct()
        state = (np.array([-1]), np.array([self.position]), np.ones(1), *self.w)
        bound = self.w.at(np.zeros((1, 1), int)).reach(self.at_end)[0, 0]
        return Batch(value, np.array([self.model.n_sources]), error, bound, np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, dest, coefficient, *direction = state
        through = self.through(last, Directions(*direction))
        batches, parents = [], []
        for layer, heads, which in self.preceded(last):
            u, at, before = self.ends(heads, through.at(which)), dest[which], coefficient[which]
            pattern = self.model.A[heads, at]
            weight = before[:, None] * pattern
            size = np.abs(weight) + FLOOR
            read, missed = self.reading(layer, u)
            bound = size * u.reach(self.at_head.of(heads)) * (1 + self.rounding)
            head, row, source = each = np.nonzero(pattern)
            values, errors = np.zeros((2, len(row), self.model.n_sources))
            n_sources, weight, size = read.shape[2], weight[each], size[each]
            values[:, :n_sources] = weight[:, None] * read[head, row, :, source]
            errors[:, :n_sources] = size[:, None] * missed[head, row, :, source]
            counts, coded = np.full(len(row), n_sources), head + heads.start
            states = (coded, source, weight, *u.at(head, row))
            hop = coded * (self.n_ctx + 1) + source
            batches.append(Batch(values, counts, errors, bound[each], hop, states))
            parents.append(which[row])
            some = np.nonzero((self.norms.b_V[heads, at] > 0) & (u.size > 0))
            head, row = some
            if not row.size:
                continue
            values, errors = np.zeros((2, len(row), self.model.n_sources))
            b_V, own = self.model.b_V[heads, at][some], np.abs(before[row]) + FLOOR
            values[:, 0] = before[row] * np.einsum("bk,bk->b", u.u[some], b_V)
            errors[:, 0] = own * self.bias(heads, u)[head, row, at[row]]
            ended, coded = np.zeros(len(row)), head + heads.start
            states = (coded, np.zeros(len(row), int), ended, *u.at(head, row))
            hop = coded * (self.n_ctx + 1) + self.n_ctx
            batches.append(Batch(values, np.ones(len(row), int), errors, ended, hop, states))
            parents.append(which[row])
        return _joined(self.model, batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return decoded(hops, self.n_ctx)


def decoded(hops: list[int], n_ctx: int) -> tuple[list[int], tuple[int | None, ...]]:
    """Heads and sources of steps coded as ``head · (n_ctx + 1) + source``."""
    heads = [hop // (n_ctx + 1) for hop in hops]
    sources = [hop % (n_ctx + 1) for hop in hops]
    return heads, tuple(None if source == n_ctx else source for source in sources)


def _mixed(mass: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """``√(Σ m · Σ m r²)``, an upper bound on ``Σ m r`` by Cauchy-Schwarz."""
    unit = unit_of(reach.max(axis=-1, initial=0.0))
    squares = (reach / unit[..., None]) ** 2
    bound = np.sqrt(np.einsum("hbs,hbs->hb", mass, squares) * mass.sum(axis=-1))
    return bound * (1 + lost(mass.shape[-1])) * unit + floor(bound)


def _joined(
    model: HostModel,
    batches: list[Batch],
    parents: list[np.ndarray],
    state: tuple[np.ndarray, ...],
) -> tuple[Batch, np.ndarray]:
    if batches:
        return join(batches), np.concatenate(parents)
    empty = np.zeros(0)
    counts = np.zeros(0, int)
    values = np.zeros((0, model.n_sources))
    none = Batch(values, counts, values, empty, counts, tuple(part[:0] for part in state))
    return none, np.zeros(0, int)
