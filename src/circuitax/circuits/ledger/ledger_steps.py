"""One step of the ledger's search: all heads, or heads and sources, that may precede a path.

A search walks from the logit back. A partial path is a row over positions (or one position with a
coefficient) and a direction in the value space of its first head; a step puts one more head in
front of it. It carries what rounding may have done to it (`host_model`), so that values come with
errors, and bounds hold for the exact paths.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.host_model import FLOOR, HostModel, floor, lost, norm
from circuitax.circuits.ledger.path_bounds import Moments, PathBounds, norms_of


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

    def at(self, which: np.ndarray) -> "Directions":
        """Some of the rows."""
        return Directions(self.u[which], self.error[which])

    def before(self, W: np.ndarray, frobenius: np.floating, spectral: np.floating) -> "Directions":
        """The directions in front of a linear map ``[d_before, d]``."""
        size = self.size
        error = spectral * self.error + lost(W.shape[1]) * frobenius * size
        return Directions(self.u @ W.T, error + floor(size, frobenius))

    def reach(self, moments: "_Forms") -> np.ndarray:
        """Bounds on ``|y · u|`` for all y covered by the moments, ``[rows, positions]``."""
        exponent = np.frexp(np.abs(self.u).max(axis=1, initial=0.0))[1][:, None]
        u = np.ldexp(self.u, -exponent)
        outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
        squares = np.maximum(outer @ moments.flat.T, 0)
        squares += (u**2).sum(axis=1)[:, None] * moments.missed
        error = self.error[:, None]
        computed = np.ldexp(np.sqrt(squares), exponent) + floor(squares)
        return computed + error * np.sqrt(moments.size) + floor(error, moments.size)


class _Forms(NamedTuple):
    """Matrices M with ``y yᵀ <= M``, as they are multiplied, and bounds on errors and norms."""

    flat: np.ndarray  # [positions, d * d]
    missed: np.ndarray  # [positions]
    size: np.ndarray


def _forms(M: np.ndarray, error: np.ndarray | float = 0.0) -> _Forms:
    """Forms of ``[positions, d, d]``; the exact matrices exceed them by the error at most."""
    d = M.shape[-1]
    size = norm(M, (1, 2)) + error
    return _Forms(M.reshape(-1, d * d), lost(d * d) * size + error + floor(size), size)


class _Steps:
    """Common part of both kinds of steps."""

    # Partial paths that are extended at once; None for any number.
    largest_batch: int | None = None

    def __init__(self, model: HostModel, position: int, w: np.ndarray) -> None:
        self.model, self.position, self.norms = model, position, norms_of(model)
        self.read = [model.read_from(head) for head in range(len(model.layer))]
        self.n_ctx, n_layers = len(model.direct), int(model.layer.max(initial=-1)) + 1
        # Division by the scale of the final norm is all that happened to w.
        self.w = Directions(w[None], lost(0) * norm(w[None]))
        # Of everything a value is made of, but its direction.
        self.rounding = lost(self.n_ctx * (n_layers + 1) + model.V.shape[2])

    def direct(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the direct paths and their errors, ``[1, n_sources]``."""
        written, w = self.model.written()[:, self.position], self.w
        missed = self.model.written_error()[:, self.position]
        size = norm(written) + missed
        error = size * (w.error + lost(written.shape[1]) * w.size) + missed * w.size
        return (written @ w.u[0])[None], (error + floor(size, w.size))[None]

    def ends(self, head: int, through: Directions) -> Directions:
        """Directions behind a head, carried in front of its ``W_O``."""
        return through.before(self.model.W_O[head], self.norms.O[head], self.norms.O_spectral[head])

    def through(self, last: np.ndarray, at: Directions) -> Directions:
        """Directions in the stream: ``W_V u`` behind a head, w itself at the root."""
        if last.size and last[0] < 0:  # the root is always expanded alone
            return at
        norms, W_V = self.norms, self.model.W_V
        u, error = np.empty((len(last), W_V.shape[1])), np.empty(len(last))
        for head in np.unique(last):
            which = last == head
            u[which], error[which] = at.at(which).before(
                W_V[head], norms.V[head], norms.V_spectral[head]
            )
        return Directions(u, error)

    def reading(self, head: int, u: Directions) -> tuple[np.ndarray, np.ndarray]:
        """Read-out of a head for a unit of weight, and its error, ``[rows, n_sources, src]``."""
        shape = len(u.u), len(self.read[head]), self.n_ctx
        read = (u.u @ self.read[head].reshape(-1, u.u.shape[1]).T).reshape(shape)
        size, missed = self.norms.read[head], self.norms.read_error[head]
        own, whole = self.rounding * u.size + u.error, u.size[:, None, None]
        return read, own[:, None, None] * size + whole * missed + floor(whole, size)

    def bias(self, head: int, u: Directions) -> np.ndarray:
        """Error of the head's bias for a unit of weight, ``[rows, dest]``."""
        own, size = (self.rounding * u.size + u.error)[:, None], self.norms.b_V[head]
        return own * size + floor(u.size[:, None], size)


class HeadSteps(_Steps):
    """Steps of head paths: head index, row over positions ``[n_ctx]``, direction in value space."""

    def __init__(self, model: HostModel, bounds: PathBounds, position: int, w: np.ndarray) -> None:
        super().__init__(model, position, w)
        self.at_end, self.at_head = (
            [_forms(M) for M in each] for each in (bounds.at_end[:, None], bounds.at_head)
        )

    def root(self) -> Batch:
        """The direct paths."""
        value, error = self.direct()
        ends = [self.ends(head, self.w).reach(M)[0, 0] for head, M in enumerate(self.at_end)]
        row = np.zeros((1, self.n_ctx))
        row[0, self.position] = 1
        state = (np.array([-1]), row, row, *self.w)
        bound = np.array([max(ends, default=0.0)])
        return Batch(value, np.array([self.model.n_sources]), error, bound, np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, row, size, *direction = state
        through = self.through(last, Directions(*direction))
        batches, parents = [], []
        for head in range(len(self.model.layer)):
            which = _may_precede(self.model, last, head)
            if not which.size:
                continue
            u = self.ends(head, through.at(which))
            before, size_before = row[which], size[which]
            A = self.model.A[head]
            after, reach = before @ A, (size_before > 0) @ (A != 0)
            # What underflows is no smaller than that.
            size_after = size_before @ np.abs(A) + FLOOR * reach
            values, n_sources = np.zeros((len(which), self.model.n_sources)), len(self.read[head])
            errors = np.zeros_like(values)
            read, missed = self.reading(head, u)
            values[:, :n_sources] = np.einsum("bs,bms->bm", after, read)
            errors[:, :n_sources] = np.einsum("bs,bms->bm", size_after, missed)
            values[:, 0] += np.einsum("bt,bt->b", before, u.u @ self.model.b_V[head].T)
            errors[:, 0] += np.einsum("bt,bt->b", size_before, self.bias(head, u))
            reach_of = u.reach(self.at_head[head])
            mass = np.abs(after) + self.rounding * size_after + FLOOR * reach
            bound = _mixed(mass, reach_of)
            codes, counts = np.full(len(which), head), np.full(len(which), n_sources)
            states = (codes, after, size_after, *u)
            batches.append(Batch(values, counts, errors, bound, codes, states))
            parents.append(which)
        return _joined(self.model, batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return hops, ()


class PositionSteps(_Steps):
    """Steps of position paths: head index, source position, coefficient, value-space direction.

    A hop is coded as ``head · (n_ctx + 1) + source``, with source n_ctx for the head's bias.
    """

    def __init__(self, model: HostModel, moments: Moments, position: int, w: np.ndarray) -> None:
        super().__init__(model, position, w)
        self.at_end = _forms(moments.at_end[None], moments.end_error)
        each = zip(moments.at_head, moments.head_error, strict=True)
        self.at_head = [_forms(M, error) for M, error in each]

    def root(self) -> Batch:
        """The direct paths."""
        value, error = self.direct()
        state = (np.array([-1]), np.array([self.position]), np.ones(1), *self.w)
        bound = self.w.reach(self.at_end)[0]
        return Batch(value, np.array([self.model.n_sources]), error, bound, np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, dest, coefficient, *direction = state
        through = self.through(last, Directions(*direction))
        batches, parents = [], []
        for head in range(len(self.model.layer)):
            which = _may_precede(self.model, last, head)
            if not which.size:
                continue
            u = self.ends(head, through.at(which))
            pattern, before = self.model.A[head][dest[which]], coefficient[which]
            weight = before[:, None] * pattern
            size = np.abs(weight) + FLOOR
            read, missed = self.reading(head, u)
            value = weight[..., None] * np.swapaxes(read, 1, 2)
            error = size[..., None] * np.swapaxes(missed, 1, 2)
            bound = size * u.reach(self.at_head[head]) * (1 + self.rounding)
            row, source = np.nonzero(pattern)
            n_sources = len(self.read[head])
            values = np.zeros((len(row), self.model.n_sources))
            errors = np.zeros_like(values)
            values[:, :n_sources] = value[row, source]
            errors[:, :n_sources] = error[row, source]
            counts = np.full(len(row), n_sources)
            hop = head * (self.n_ctx + 1) + source
            of_u = u.at(row)
            states = (np.full(len(row), head), source, weight[row, source], *of_u)
            batches.append(Batch(values, counts, errors, bound[row, source], hop, states))
            parents.append(which[row])
            at = np.arange(len(which)), dest[which]
            (some,) = np.nonzero((self.norms.b_V[head][dest[which]] > 0) & (u.size > 0))
            bias = before * np.einsum("bk,bk->b", u.u, self.model.b_V[head][dest[which]])
            values = np.zeros((len(some), self.model.n_sources))
            errors = np.zeros_like(values)
            values[:, 0] = bias[some]
            errors[:, 0] = ((np.abs(before) + FLOOR) * self.bias(head, u)[at])[some]
            ended = np.zeros(len(some))
            states = (np.full(len(some), head), np.zeros(len(some), int), ended, *u.at(some))
            hop = np.full(len(some), head * (self.n_ctx + 1) + self.n_ctx)
            batches.append(Batch(values, np.ones(len(some), int), errors, ended, hop, states))
            parents.append(which[some])
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
    exponent = np.frexp(reach.max(axis=1, initial=0.0))[1]
    squares = np.ldexp(reach, -exponent[:, None]) ** 2
    bound = np.sqrt(np.einsum("bs,bs->b", mass, squares) * mass.sum(axis=1))
    return np.ldexp(bound * (1 + lost(mass.shape[1])), exponent) + floor(bound)


def _may_precede(model: HostModel, last: np.ndarray, head: int) -> np.ndarray:
    """Mask of partial paths that a head may precede: those that start in a later layer."""
    n_layers = model.layer[-1] + 1
    layer = np.where(last < 0, n_layers, model.layer[last])
    return np.flatnonzero(model.layer[head] < layer)


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
