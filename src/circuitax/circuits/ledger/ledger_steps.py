"""One step of the ledger's search: every head, or head and source, that may precede a path.

A search walks from the logit back. A partial path is a row over positions (or one position with a
coefficient) and a direction in the value space of its first head; a step puts one more head in
front of it.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.path_bounds import PathBounds
from circuitax.circuits.ledger.second_moments import HostModel, Moments


class Batch(NamedTuple):
    """Partial paths: values of what may start them, a bound on what may precede, their state."""

    value: np.ndarray
    """``[rows, n_sources]``: the path from the embedding, and from each MLP that acts before."""
    n_sources: np.ndarray
    """How many of these there are; the rest of a row is 0."""
    bound: np.ndarray
    hop: np.ndarray
    """Code of the last step taken; -1 at the root."""
    state: tuple[np.ndarray, ...]


def take(batch: Batch, which: np.ndarray) -> Batch:
    """Some rows of a batch."""
    state = tuple(part[which] for part in batch.state)
    values = (batch.value[which], batch.n_sources[which])
    return Batch(*values, batch.bound[which], batch.hop[which], state)


def join(batches: list[Batch]) -> Batch:
    """The rows of several batches, at least one."""
    columns = zip(*(batch.state for batch in batches), strict=True)
    return Batch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.n_sources for batch in batches]),
        np.concatenate([batch.bound for batch in batches]),
        np.concatenate([batch.hop for batch in batches]),
        tuple(np.concatenate(column) for column in columns),
    )


class HeadSteps:
    """Steps of head paths: head index, row over positions ``[n_ctx]``, direction in value space."""

    def __init__(self, model: HostModel, bounds: PathBounds, position: int, w: np.ndarray) -> None:
        self.model, self.bounds, self.w, self.position = model, bounds, w, position
        self.read = [model.read_from(head) for head in range(len(model.layer))]

    def root(self) -> Batch:
        """The direct paths."""
        value = self.model.written()[:, self.position] @ self.w
        ends = self.model.W_O @ self.w
        squares = np.einsum("hk,hkj,hj->h", ends, self.bounds.at_end, ends)
        bound = np.sqrt(squares.max(initial=0.0))
        row = np.zeros((1, self.model.direct.shape[0]))
        row[0, self.position] = 1
        state = (np.array([-1]), row, self.w[None])
        sources = np.array([self.model.n_sources])
        return Batch(value[None], sources, np.array([bound]), np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, row, direction = state
        through = _through(self.model, last, direction)
        batches, parents = [], []
        for head in range(len(self.model.layer)):
            which = _may_precede(self.model, last, head)
            if not which.size:
                continue
            u = through[which] @ self.model.W_O[head].T
            before = row[which]
            after = before @ self.model.A[head]
            values, n_sources = np.zeros((len(u), self.model.n_sources)), len(self.read[head])
            read = (u @ self.read[head].reshape(-1, u.shape[1]).T).reshape(len(u), n_sources, -1)
            values[:, :n_sources] = np.einsum("bs,bms->bm", after, read)
            values[:, 0] += np.einsum("bt,bt->b", before, u @ self.model.b_V[head].T)
            outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
            squares = outer @ self.bounds.at_head[head].reshape(row.shape[1], -1).T
            mass = np.abs(after)
            moment = np.einsum("bs,bs->b", mass, np.maximum(squares, 0))
            bound = np.sqrt(moment * mass.sum(axis=1))
            codes = np.full(len(u), head)
            counts = np.full(len(u), n_sources)
            batches.append(Batch(values, counts, bound, codes, (codes, after, u)))
            parents.append(which)
        return _joined(self.model, batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return hops, ()


class PositionSteps:
    """Steps of position paths: head index, source position, coefficient, value-space direction.

    A hop is coded as ``head · (n_ctx + 1) + source``, with source n_ctx for the head's bias.
    """

    def __init__(self, model: HostModel, moments: Moments, position: int, w: np.ndarray) -> None:
        self.model, self.moments, self.w, self.position = model, moments, w, position
        self.read = [model.read_from(head) for head in range(len(model.layer))]

    def root(self) -> Batch:
        """The direct paths."""
        value = self.model.written()[:, self.position] @ self.w
        bound = np.sqrt(max(self.w @ self.moments.at_end @ self.w, 0))
        state = (np.array([-1]), np.array([self.position]), np.ones(1), self.w[None])
        sources = np.array([self.model.n_sources])
        return Batch(value[None], sources, np.array([bound]), np.array([-1]), state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, dest, coefficient, direction = state
        through = _through(self.model, last, direction)
        n_ctx = self.model.direct.shape[0]
        batches, parents = [], []
        for head in range(len(self.model.layer)):
            which = _may_precede(self.model, last, head)
            if not which.size:
                continue
            u = through[which] @ self.model.W_O[head].T
            weight = coefficient[which, None] * self.model.A[head][dest[which]]
            n_sources = len(self.read[head])
            read = (u @ self.read[head].reshape(-1, u.shape[1]).T).reshape(len(u), n_sources, -1)
            value = weight[..., None] * np.swapaxes(read, 1, 2)
            outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
            squares = outer @ self.moments.at_head[head].reshape(n_ctx, -1).T
            bound = np.abs(weight) * np.sqrt(np.maximum(squares, 0))
            row, source = np.nonzero(weight)
            states = (np.full(len(row), head), source, weight[row, source], u[row])
            hop = head * (n_ctx + 1) + source
            values = np.zeros((len(row), self.model.n_sources))
            values[:, :n_sources] = value[row, source]
            counts = np.full(len(row), n_sources)
            batches.append(Batch(values, counts, bound[row, source], hop, states))
            parents.append(which[row])
            bias = coefficient[which] * np.einsum("bk,bk->b", u, self.model.b_V[head][dest[which]])
            (some,) = np.nonzero(bias)
            ended = np.zeros(len(some))
            states = (np.full(len(some), head), np.zeros(len(some), int), ended, u[some])
            hop = np.full(len(some), head * (n_ctx + 1) + n_ctx)
            values = np.zeros((len(some), self.model.n_sources))
            values[:, 0] = bias[some]
            batches.append(Batch(values, np.ones(len(some), int), ended, hop, states))
            parents.append(which[some])
        return _joined(self.model, batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        n_ctx = self.model.direct.shape[0]
        heads = [hop // (n_ctx + 1) for hop in hops]
        sources = [hop % (n_ctx + 1) for hop in hops]
        return heads, tuple(None if source == n_ctx else source for source in sources)


def _may_precede(model: HostModel, last: np.ndarray, head: int) -> np.ndarray:
    """Which partial paths a head can be put in front of: those that start in a later layer."""
    n_layers = model.layer[-1] + 1
    layer = np.where(last < 0, n_layers, model.layer[last])
    return np.flatnonzero(model.layer[head] < layer)


def _through(model: HostModel, last: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Directions in the stream: ``W_V u`` behind a head, w itself at the root."""
    if last.size and last[0] < 0:  # the root is always expanded alone
        return direction
    found = np.empty((len(last), model.W_V.shape[1]))
    for head in np.unique(last):
        which = last == head
        found[which] = direction[which] @ model.W_V[head].T
    return found


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
    none = Batch(values, counts, empty, counts, tuple(part[:0] for part in state))
    return none, np.zeros(0, int)
