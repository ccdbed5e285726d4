"""Second moments of all that paths can still contribute, which bound the path ledger's search.

``N_l(s) = Σ_q y_q(s) y_q(s)ᵀ`` over the paths q that end at position s and use at least one head,
all in layers below l. For a direction w, ``wᵀ N_l(s) w`` is then the sum of squares of everything
that can precede, which is what the search, going backwards, has still to choose. Products of norms
would bound it far more loosely.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from circuitax.circuits.paths.frozen import FrozenModel


class HostModel(NamedTuple):
    """A frozen model on the host in double precision, heads of all layers in one axis.

    Searches use it. ``V`` is what each head reads from a direct path, embedding and the ``b_O``
    of earlier layers included; ``b_V`` what its bias adds at each destination.
    """

    A: np.ndarray  # [heads, dest, src]
    V: np.ndarray  # [heads, src, d_value]
    W_V: np.ndarray  # [heads, d_model, d_value]
    W_O: np.ndarray  # [heads, d_value, d_model]
    b_V: np.ndarray  # [heads, dest, d_value]
    layer: np.ndarray  # [heads]
    direct: np.ndarray  # [n_ctx, d_model], what the direct path writes
    mlp_V: np.ndarray  # [heads, n_mlps, src, d_value], as V from each MLP; 0 from later layers
    mlp_direct: np.ndarray  # [n_mlps, n_ctx, d_model]

    @property
    def n_sources(self) -> int:
        """Where paths can start: the embedding, and each MLP."""
        return 1 + self.mlp_direct.shape[0]

    def read_from(self, head: int | np.integer) -> np.ndarray:
        """What a head reads from each source before it, ``[n_sources, src, d_value]``."""
        before = min(int(self.layer[head]), self.mlp_direct.shape[0])
        return np.concatenate([self.V[head][None], self.mlp_V[head, :before]])

    def written(self) -> np.ndarray:
        """What each source writes to the final stream itself, ``[n_sources, n_ctx, d_model]``."""
        return np.concatenate([self.direct[None], self.mlp_direct])


def host_model(frozen: FrozenModel) -> HostModel:
    """Copy a frozen model to the host.

    Args:
        frozen: The frozen model of one text.

    Raises:
        ValueError: If anything in it is not finite, as in a model that diverged.
    """
    n_layers, n_heads, n_ctx, _ = frozen.A.shape
    d_value = frozen.W_O.shape[2]
    embedding = np.asarray(frozen.embedding, np.float64)
    W_V = np.asarray(frozen.W_V, np.float64).reshape(-1, embedding.shape[1], d_value)
    b_O = np.zeros((n_layers, embedding.shape[1]))
    if frozen.b_O is not None:
        b_O = np.asarray(frozen.b_O, np.float64)
    before = np.concatenate([np.zeros((1, b_O.shape[1])), np.cumsum(b_O, axis=0)])
    layer = np.repeat(np.arange(n_layers), n_heads)
    shape = (n_layers * n_heads, n_ctx, d_value)
    b_V = np.zeros(shape) if frozen.b_V is None else np.asarray(frozen.b_V, np.float64)
    mlps = np.zeros((0, *embedding.shape))
    if frozen.mlps is not None:
        mlps = np.asarray(frozen.mlps, np.float64)
    earlier = np.arange(len(mlps)) < layer[:, None]
    host = HostModel(
        np.asarray(frozen.A, np.float64).reshape(shape[0], n_ctx, n_ctx),
        (embedding[None] + before[layer][:, None]) @ W_V,
        W_V,
        np.asarray(frozen.W_O, np.float64).reshape(-1, d_value, embedding.shape[1]),
        b_V.reshape(shape),
        layer,
        embedding + before[-1],
        (mlps[None] @ W_V[:, None]) * earlier[:, :, None, None],
        mlps,
    )
    for name, array in host._asdict().items():
        # Comparisons with NaN are false: a search would drop all such paths as if proven small.
        if not np.isfinite(array).all():
            raise ValueError(f"frozen.{name} must be finite; a path ledger is no proof otherwise")
    return host


def final_stream(model: HostModel) -> np.ndarray:
    """All paths added up, ``[n_ctx, d_model]``: what the frozen model leaves in its stream."""
    written = np.zeros_like(model.direct)
    for layer in range(model.layer.max(initial=-1) + 1):
        update = np.zeros_like(written)
        for head in np.flatnonzero(model.layer == layer):
            values = model.read_from(head).sum(axis=0) + written @ model.W_V[head]
            update += (model.A[head] @ values + model.b_V[head]) @ model.W_O[head]
        written += update
    return model.written().sum(axis=0) + written


class Moments(NamedTuple):
    """Second moments of non-empty completions, where the search asks for them."""

    at_head: np.ndarray
    """``W_Vᵀ N_l(s) W_V`` for every head, l its layer: ``[heads, n_ctx, d_value, d_value]``."""
    at_end: np.ndarray
    """``N_L`` at one position: ``[d_model, d_model]``."""


def position_path_moments(model: HostModel, position: int) -> Moments:
    """Moments over paths of heads and positions; exact, since no two of them share a term.

    Args:
        model: The model on the host.
        position: Where the completions may end.
    """
    squared = model.A**2

    def starts(head: int | np.integer) -> np.ndarray:
        sources = _mix(squared[head], _outer(model.read_from(head)))
        return sources + _outer(model.b_V[head][None])

    return _moments(model, squared, starts, position)


def _moments(
    model: HostModel, P: np.ndarray, starts: Callable[[int | np.integer], np.ndarray], position: int
) -> Moments:
    """``N += Σ_h W_Oᵀ (starts + P W_Vᵀ N W_V) W_O`` over layers."""
    n_heads, n_ctx, d_value = model.V.shape
    d_model = model.direct.shape[1]
    at_head = np.zeros((n_heads, n_ctx, d_value, d_value))
    N = np.zeros((n_ctx, d_model, d_model))
    last = model.layer.max(initial=-1)
    for layer in range(last + 1):
        heads = np.flatnonzero(model.layer == layer)
        if layer:  # one product for all heads: most of the work is here and in the update
            side = np.concatenate(model.W_V[heads], axis=1)
            read = (N.reshape(-1, d_model) @ side).reshape(n_ctx, d_model, len(heads), d_value)
            for i, head in enumerate(heads):
                at_head[head] = model.W_V[head].T @ read[:, :, i]
        # After the last layer only one position is asked for.
        where = slice(None) if layer < last else slice(position, position + 1)
        inner = [starts(head)[where] + _mix(P[head][where], at_head[head]) for head in heads]
        right = np.concatenate([y @ model.W_O[h] for y, h in zip(inner, heads, strict=True)], 1)
        N[where] += np.concatenate(model.W_O[heads]).T @ right
    return Moments(at_head, N[position])


def _outer(vectors: np.ndarray) -> np.ndarray:
    """``Σ_q v_q(s) v_q(s)ᵀ`` of vectors ``[q, n_ctx, d]``."""
    by_position = np.swapaxes(vectors, 0, 1)
    return np.swapaxes(by_position, 1, 2) @ by_position


def _mix(P: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """``Σ_s P_ts M(s)``."""
    *before, d, _ = moments.shape
    mixed = P @ moments.reshape(*before, d * d)
    return mixed.reshape(*mixed.shape[:-1], d, d)
