"""One step of the ledger's search: every head, or head and source, that may precede a path.

A search walks from the logit back. A partial path is a row over positions (or one position with a
coefficient) and a direction in the value space of its first head; a step puts one more head in
front of it.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.second_moments import HostModel, Moments


class Batch(NamedTuple):
    """Partial paths: their value if they end here, a bound on what may precede, and their state."""

    value: np.ndarray
    bound: np.ndarray
    hop: np.ndarray
    """Code of the last step taken; -1 at the root."""
    state: tuple[np.ndarray, ...]


def take(batch: Batch, which: np.ndarray) -> Batch:
    """Some rows of a batch."""
    state = tuple(part[which] for part in batch.state)
    return Batch(batch.value[which], batch.bound[which], batch.hop[which], state)


def join(batches: list[Batch]) -> Batch:
    """The rows of several batches, at least one."""
    columns = zip(*(batch.state for batch in batches), strict=True)
    return Batch(
        np.concatenate([batch.value for batch in batches]),
        np.concatenate([batch.bound for batch in batches]),
        np.concatenate([batch.hop for batch in batches]),
        tuple(np.concatenate(column) for column in columns),
    )


class HeadSteps:
    """Steps of head paths: head index, row over positions ``[n_ctx]``, direction in value space."""

    def __init__(self, model: HostModel, moments: Moments, position: int, w: np.ndarray) -> None:
        self.model, self.moments, self.w, self.position = model, moments, w, position

    def root(self) -> Batch:
        """The direct path."""
        value = self.model.direct[self.position] @ self.w
        bound = np.sqrt(max(self.w @ self.moments.at_end @ self.w, 0))
        row = np.zeros((1, self.model.direct.shape[0]))
        row[0, self.position] = 1
        state = (np.array([-1]), row, self.w[None])
        return Batch(np.array([value]), np.array([bound]), np.array([-1]), state)

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
            value = np.einsum("bs,bs->b", after, u @ self.model.V[head].T)
            value += np.einsum("bt,bt->b", before, u @ self.model.b_V[head].T)
            outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
            squares = outer @ self.moments.at_head[head].reshape(row.shape[1], -1).T
            mass = np.abs(after)
            moment = np.einsum("bs,bs->b", mass, np.maximum(squares, 0))
            bound = np.sqrt(moment * mass.sum(axis=1))
            codes = np.full(len(u), head)
            batches.append(Batch(value, bound, codes, (codes, after, u)))
            parents.append(which)
        return _joined(batches, parents, state)

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return hops, ()


class PositionSteps:
    """Steps of position paths: head index, source position, coefficient, value-space direction.

    A hop is coded as ``head · (n_ctx + 1) + source``, with source n_ctx for the head's bias.
    """

    def __init__(self, model: HostModel, moments: Moments, position: int, w: np.ndarray) -> None:
        self.model, self.moments, self.w, self.position = model, moments, w, position

    def root(self) -> Batch:
        """The direct path."""
        value = self.model.direct[self.position] @ self.w
        bound = np.sqrt(max(self.w @ self.moments.at_end @ self.w, 0))
        state = (np.array([-1]), np.array([self.position]), np.ones(1), self.w[None])
        return Batch(np.array([value]), np.array([bound]), np.array([-1]), state)

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
            value = weight * (u @ self.model.V[head].T)
            outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
            squares = outer @ self.moments.at_head[head].reshape(n_ctx, -1).T
            bound = np.abs(weight) * np.sqrt(np.maximum(squares, 0))
            row, source = np.nonzero(weight)
            states = (np.full(len(row), head), source, weight[row, source], u[row])
            hop = head * (n_ctx + 1) + source
            batches.append(Batch(value[row, source], bound[row, source], hop, states))
            parents.append(which[row])
            bias = coefficient[which] * np.einsum("bk,bk->b", u, self.model.b_V[head][dest[which]])
            (some,) = np.nonzero(bias)
            ended = np.zeros(len(some))
            states = (np.full(len(some), head), np.zeros(len(some), int), ended, u[some])
            hop = np.full(len(some), head * (n_ctx + 1) + n_ctx)
            batches.append(Batch(bias[some], ended, hop, states))
            parents.append(which[some])
        return _joined(batches, parents, state)

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
    batches: list[Batch], parents: list[np.ndarray], state: tuple[np.ndarray, ...]
) -> tuple[Batch, np.ndarray]:
    if batches:
        return join(batches), np.concatenate(parents)
    empty = np.zeros(0)
    none = Batch(empty, empty, np.zeros(0, int), tuple(part[:0] for part in state))
    return none, np.zeros(0, int)
