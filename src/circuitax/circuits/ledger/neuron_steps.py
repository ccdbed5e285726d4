"""Steps of the ledger's search where the last stretch of a path is opened into neurons.

What reaches the logit was written last by the embedding, a constant, a head, or a hidden unit of
an MLP, a *neuron*. Neuron n of layer l reads ``x_l · d_ln``, gates held, and writes that much of
``w_ln``, so that along the direction w of the logit

    x_L · w = x_0 · w + Σ_l (b_l + c_l) · w + Σ_lh o_lh · w + Σ_ln (x_l · d_ln) (w_ln · w)

with the constants b_l of attention and c_l of MLPs, and o_lh what head h of layer l writes.

Heads here write past all MLPs. What such a head or neuron reads is split into paths in the dressed
stream, as everywhere else (`dressed_steps`): only the last stretch is opened.
"""

import numpy as np

from circuitax.circuits.ledger.dressed_model import DressedModel, product_loss
from circuitax.circuits.ledger.dressed_moments import CARRIED, DressedMoments
from circuitax.circuits.ledger.dressed_steps import DressedSteps, Extensions, joined
from circuitax.circuits.ledger.ledger_steps import Batch
from circuitax.circuits.ledger.rounding import FLOOR, lost


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
