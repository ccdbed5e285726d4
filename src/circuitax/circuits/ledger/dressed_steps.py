"""One step of the ledger's search in the dressed stream: all heads and sources that may precede.

Like `ledger_steps.PositionSteps`, but that a direction passes the MLPs of its position on its way
from one head to an earlier one. A partial path carries one number for its rounding: how far the
value of any completion may be from what its coefficient and direction say (`dressed_moments`).
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.dressed_model import DressedModel, product_loss
from circuitax.circuits.ledger.dressed_moments import CARRIED, DressedMoments
from circuitax.circuits.ledger.ledger_steps import Batch, decoded, join
from circuitax.circuits.ledger.rounding import FLOOR, lost


class Extensions(NamedTuple):
    """Extensions that are collected, and the row of the parent of each."""

    batches: list[Batch]
    parents: list[np.ndarray]


def joined(found: Extensions, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
    """All that was collected, in one batch; none of the shapes of a state where nothing was."""
    if found.batches:
        return join(found.batches), np.concatenate(found.parents)
    none, zero, counts = tuple(part[:0] for part in state), np.zeros(0), np.zeros(0, int)
    return Batch(zero[:, None], counts, zero[:, None], zero, counts, none), counts


class DressedSteps:
    """Steps of position paths: head, source position, coefficient, direction, error."""

    largest_batch = 128  # a partial path has a child for each head and position before it

    def __init__(
        self, model: DressedModel, moments: DressedMoments, position: int, w: np.ndarray
    ) -> None:
        self.model, self.moments, self.position = model, moments, position
        self.n_ctx, self.n_layers = len(model.final), len(model.factors)
        self.w = w
        self.rounding = lost(self.n_layers)  # of a product of entries of patterns

    def root(self) -> Batch:
        """The direct path."""
        w, moments, d_model = self.w, self.moments, len(self.w)
        direct = self.model.direct[-1, self.position]
        sizes = np.sqrt(np.maximum(np.diagonal(moments.at_end), 0))
        # Division by the scale of the final norm is all that happened to w.
        missed = lost(0) * (np.abs(w) @ sizes) + FLOOR
        reach = _reach(w[None], moments.at_end[None])
        error = lost(d_model) * (np.abs(direct) @ np.abs(w)) + CARRIED * reach + FLOOR
        place, last = np.array([self.position]), np.array([-1])
        state = (last, place, np.ones(1), w[None], np.array([missed]))
        value, count = np.array([[direct @ w]]), np.ones(1, int)
        return Batch(value, count, error, reach[0] + missed, last, state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        last, dest, coefficient, direction, missed = state
        model, size, missed = self.model, np.abs(coefficient) + FLOOR, missed.copy()
        w = self._in_stream(last, dest, direction, size, missed)
        layer_of = np.where(last < 0, self.n_layers, model.layer[last])
        return joined(self.preceding(w, layer_of, dest, coefficient, missed), state)

    def preceding(
        self,
        w: np.ndarray,
        layer_of: np.ndarray,
        dest: np.ndarray,
        coefficient: np.ndarray,
        missed: np.ndarray,
    ) -> Extensions:
        """Extensions by heads of all layers before some, the MLPs in between passed."""
        model, size, found = self.model, np.abs(coefficient) + FLOOR, Extensions([], [])
        for layer in range(int(layer_of.max(initial=0)) - 1, -1, -1):
            which = np.flatnonzero(layer_of > layer)
            # In the parallel form what heads write does not pass the MLP of their layer.
            behind, lost_behind = w[which], missed[which]
            loss = (np.abs(w[which]) * self.moments.in_X[layer, dest[which]]).sum(axis=1)
            missed[which] += size[which] * (product_loss(model) * loss + FLOOR)
            w[which] = model.carried_back(layer, w[which], dest[which])
            if model.after_heads:
                behind, lost_behind = w[which], missed[which]
            self.written(found, layer, which, behind, dest, coefficient, lost_behind)
        return found

    def written(
        self,
        found: Extensions,
        layer: int,
        which: np.ndarray,
        behind: np.ndarray,
        dest: np.ndarray,
        coefficient: np.ndarray,
        missed: np.ndarray,
    ) -> None:
        """Add the extensions of some rows by the heads of one layer."""
        model = self.model
        size = np.abs(coefficient[which]) + FLOOR
        for head in np.flatnonzero(model.layer == layer).tolist():
            r = self.moments.in_W_O[head, dest[which]]
            loss = lost(behind.shape[1]) * (np.abs(behind) * r).sum(axis=1) + FLOOR
            u = behind @ model.W_O[head].T
            error = missed + size * loss
            for batch, row in self._through(head, dest[which], coefficient[which], u, error):
                found.batches.append(batch)
                found.parents.append(which[row])

    def decode(self, hops: list[int]) -> tuple[list[int], tuple[int | None, ...]]:
        """Heads and sources of coded steps, in the order in which they act."""
        return decoded(hops, self.n_ctx)

    def _in_stream(
        self,
        last: np.ndarray,
        dest: np.ndarray,
        direction: np.ndarray,
        size: np.ndarray,
        missed: np.ndarray,
    ) -> np.ndarray:
        """Directions in the stream: ``W_V u`` before a head, w itself at the root."""
        if last.size and last[0] < 0:  # the root is always expanded alone
            return direction.copy()
        w = np.empty((len(last), self.model.W_V.shape[1]))
        for head in np.unique(last):
            at = last == head
            u = direction[at]
            w[at] = u @ self.model.W_V[head].T
            r = self.moments.in_W_V[head, dest[at]]
            missed[at] += size[at] * (lost(u.shape[1]) * (np.abs(u) * r).sum(axis=1) + FLOOR)
        return w

    def _through(
        self, head: int, dest: np.ndarray, coefficient: np.ndarray, u: np.ndarray, error: np.ndarray
    ) -> list[tuple[Batch, np.ndarray]]:
        """Extensions by one head, from the positions it reads and from its bias."""
        model, moments, d_value = self.model, self.moments, u.shape[1]
        pattern = model.A[head][dest]
        weight = coefficient[:, None] * pattern
        size = np.abs(weight) + FLOOR
        value = u @ moments.start[head].T
        reach = np.zeros_like(value)  # layer 0 has nothing before it
        if model.layer[head]:
            reach = _reach(u, moments.at_head[head])
        made = lost(d_value + model.W_V.shape[1]) * (np.abs(u) @ moments.start_size[head].T)
        slack = made + CARRIED * reach + self.rounding * np.abs(value) + FLOOR
        errors = (1 + self.rounding) * size * slack + error[:, None]
        bound = (1 + self.rounding) * size * reach
        if model.layer[head]:
            bound += error[:, None]
        row, source = np.nonzero(pattern)
        hop = head * (self.n_ctx + 1) + source
        state = (np.full(len(row), head), source, weight[row, source], u[row], error[row])
        found = [
            (
                Batch(
                    (weight * value)[row, source, None],
                    np.ones(len(row), int),
                    errors[row, source, None],
                    bound[row, source],
                    hop,
                    state,
                ),
                row,
            )
        ]
        b_V = model.b_V[head][dest]
        (some,) = np.nonzero(np.abs(b_V).sum(axis=1))
        if some.size:
            value = coefficient[some] * (u[some] * b_V[some]).sum(axis=1)
            slack = lost(d_value) * (np.abs(u[some]) * np.abs(b_V[some])).sum(axis=1)
            slack += self.rounding * np.abs((u[some] * b_V[some]).sum(axis=1)) + FLOOR
            errors = (np.abs(coefficient[some]) + FLOOR) * slack + error[some]
            ended, count = np.zeros(len(some)), np.ones(len(some), int)
            hop = np.full(len(some), head * (self.n_ctx + 1) + self.n_ctx)
            state = (np.full(len(some), head), np.zeros(len(some), int), ended, u[some], ended)
            found.append((Batch(value[:, None], count, errors[:, None], ended, hop, state), some))
        return found


def _reach(u: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Bounds on ``|y · u|`` for all y covered by the moments, ``[rows, positions]``."""
    d = u.shape[1]
    outer = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
    squares = np.maximum(outer @ moments.reshape(-1, d * d).T, 0)
    sizes = np.sqrt(np.maximum(np.einsum("pii->pi", moments), 0))
    squares += lost(d * d) * (np.abs(u) @ sizes.T) ** 2
    return np.asarray(np.sqrt(squares) * (1 + lost(0)) + FLOOR)
