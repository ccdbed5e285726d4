"""One step of the ledger's search in the dressed stream, or past its last neuron.

What reaches the logit was written last by the embedding, a constant, a head, or a hidden unit of
an MLP, a *neuron*. Neuron n of layer l reads ``x_l · d_ln``, gates held, and writes that much of
``w_ln``, so that along the direction w of the logit

    x_L · w = x_0 · w + Σ_l (b_l + c_l) · w + Σ_lh o_lh · w + Σ_ln (x_l · d_ln) (w_ln · w)
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.dressed_moments import (
    CARRIED,
    DressedModel,
    DressedMoments,
    product_loss,
)
from circuitax.circuits.ledger.host_model import FLOOR, lost
from circuitax.circuits.ledger.ledger_steps import Batch, decoded, join


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


class NeuronSteps(DressedSteps):
    """Steps of position paths whose last writer is opened: a head, or a neuron.

    Neurons are counted behind the heads, ``n_heads + layer · d_mlp + unit``, and coded like heads
    that read the position of the logit.
    """

    def __init__(
        self, model: DressedModel, moments: DressedMoments, position: int, w: np.ndarray
    ) -> None:
        super().__init__(model, moments, position, w)
        self.n_heads = len(model.layer)
        self.read, last = self._neurons()
        self.d_mlp = self.read.shape[1]
        found = Extensions([last], [np.zeros(len(last.hop), int)])
        n_layers, here = self.n_layers, np.array([position])
        state = (np.array([-1]), here, np.ones(1), w[None], np.zeros(1))
        for layer in range(n_layers):
            self.written(found, layer, np.zeros(1, int), w[None], here, np.ones(1), np.zeros(1))
        self._last = joined(found, state)

    def root(self) -> Batch:
        """What no head and no neuron wrote: the embedding and constants."""
        model, at, w = self.model, self.position, self.w
        terms = np.concatenate([model.direct[:1, at], model.b_O, model.constant[:, at]])
        value = terms.sum(axis=0) @ w
        error = lost(w.size + len(terms)) * (np.abs(terms).sum(axis=0) @ np.abs(w)) + FLOOR
        bound = self._last[0].bound.max(initial=0.0)
        first = (np.abs(self._last[0].value) + self._last[0].error).max(initial=0.0)
        last, place = np.array([-1]), np.array([at])
        state = (last, place, np.ones(1), w[None], np.zeros(1))
        errors, largest = np.array([[error]]), np.array([max(bound, first)])
        return Batch(np.array([[value]]), np.ones(1, int), errors, largest, last, state)

    def children(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """All one-step extensions, and the row of the parent of each."""
        if state[0].size and state[0][0] < 0:  # the root is always expanded alone
            return self._last
        found = Extensions([], [])
        for neurons in (False, True):
            rows = np.flatnonzero((state[0] >= self.n_heads) == neurons)
            if rows.size:
                some = tuple(part[rows] for part in state)
                batch, parent = self._past_neurons(some) if neurons else super().children(some)
                found.batches.append(batch)
                found.parents.append(rows[parent])
        return joined(found, state)

    def _past_neurons(self, state: tuple[np.ndarray, ...]) -> tuple[Batch, np.ndarray]:
        """Extensions of neurons by the heads that they may read."""
        last, dest, coefficient, _, missed = state
        layer, unit = np.divmod(last - self.n_heads, self.d_mlp)
        w, found = self.read[layer, unit], Extensions([], [])
        if self.model.after_heads:
            for at in np.unique(layer).tolist():
                which = np.flatnonzero(layer == at)
                self.written(found, at, which, w[which], dest, coefficient, missed[which])
        before = self.preceding(w, layer, dest, coefficient, missed.copy())
        return joined(
            Extensions(found.batches + before.batches, found.parents + before.parents), state
        )

    def _neurons(self) -> tuple[np.ndarray, Batch]:
        """What neurons read, and the paths that reach them past no head, with their bounds."""
        model, moments, at, w = self.model, self.moments, self.position, self.w
        read, parts = [], []
        for layer in range(self.n_layers):
            directions, size, W_out = model.units_at(layer, at)
            N = moments.at_mlp[layer]
            sizes = np.sqrt(np.maximum(np.diagonal(N), 0))
            # No unit sees more of a completion than this, nor more of what made its direction.
            most = size @ sizes
            squares = np.maximum(((directions @ N) * directions).sum(axis=1), 0)
            squares += lost(2 * len(w)) * most**2
            reach = np.sqrt(squares) * (1 + lost(0)) + product_loss(model) * most + FLOOR
            coefficient = W_out @ w
            off = lost(len(w)) * (np.abs(W_out) @ np.abs(w)) + FLOOR
            written = np.abs(coefficient) + FLOOR
            missed = written * (product_loss(model) * most + FLOOR) + off * reach
            stream = model.direct[layer, at]
            stream_size = np.abs(stream)
            if model.after_heads:
                stream, stream_size = (
                    stream + model.b_O[layer],
                    stream_size + np.abs(model.b_O[layer]),
                )
            value = directions @ stream
            made = (product_loss(model) + lost(len(w))) * (size @ stream_size) + FLOOR
            error = (written + off) * (made + CARRIED * reach) + off * np.abs(value) + FLOOR
            value = coefficient * value
            error += lost(0) * np.abs(value)
            read.append(directions)
            parts.append((coefficient, missed, value, error, (written + off) * reach))
        coefficient, missed, value, error, bound = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        n = len(bound)
        last = self.n_heads + np.arange(n)
        state = (last, np.full(n, at), coefficient, np.zeros((n, model.W_V.shape[2])), missed)
        hop = last * (self.n_ctx + 1) + at
        counts = np.ones(n, int)
        return np.stack(read), Batch(value[:, None], counts, error[:, None], bound, hop, state)
