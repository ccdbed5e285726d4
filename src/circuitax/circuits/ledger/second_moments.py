"""Second moments of all completions of a path, which bound the path ledger's search.

``N_l(s) = Σ_q y_q(s) y_q(s)ᵀ`` over the paths q that end at position s and use at least one head,
all in layers below l. For a direction w, ``wᵀ N_l(s) w`` is then the sum of squares of everything
that can precede, which is what the search, going backwards, has still to choose. Products of norms
would bound it far more loosely.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.host_model import HostModel
from circuitax.circuits.ledger.rounding import (
    floor,
    lost,
    norm,
    overflow_is_refused,
    require_finite,
    spectral_norm,
)


class Norms(NamedTuple):
    """Norms of a host model, and rounding errors of its heads' reads."""

    V: np.ndarray  # [heads], Frobenius, as O
    O: np.ndarray  # named like W_O
    V_spectral: np.ndarray
    O_spectral: np.ndarray
    read: list[np.ndarray]  # for each head [n_sources, src]: bound on what the exact model reads
    read_error: list[np.ndarray]
    b_V: np.ndarray  # [heads, dest]


def norms_of(model: HostModel) -> Norms:
    """Norms, each with its rounding error."""
    d_model = model.direct.shape[1]
    V, O = (norm(W, (-2, -1)) for W in (model.W_V, model.W_O))
    V_spectral, O_spectral = spectral_norm(model.W_V), spectral_norm(model.W_O)
    written, lost_before = norm(model.written()), model.written_error()
    written[0] = model.size
    read, errors = [], []
    for head in range(len(model.layer)):
        computed = model.read_from(head)
        size = V[head] * written[: len(computed)]
        error = lost(d_model) * size + floor(V[head], written[: len(computed)])
        error += V_spectral[head] * lost_before[: len(computed)]
        read.append(norm(computed) + error)
        errors.append(error)
    return Norms(V, O, V_spectral, O_spectral, read, errors, norm(model.b_V))


def sum_of_paths(model: HostModel) -> np.ndarray:
    """Sum of all paths, ``[n_ctx, d_model]``: the final stream of the frozen model."""
    written = np.zeros_like(model.direct)
    for layer in range(model.layer.max(initial=-1) + 1):
        update = np.zeros_like(written)
        for head in np.flatnonzero(model.layer == layer):
            values = model.read_from(head).sum(axis=0) + written @ model.W_V[head]
            update += (model.A[head] @ values + model.b_V[head]) @ model.W_O[head]
        written += update
    return model.written().sum(axis=0) + written


class Moments(NamedTuple):
    """Second moments of non-empty completions, at the heads and positions of the search.

    Attributes:
        at_head: ``W_Vᵀ N_l(s) W_V`` for every head, l its layer: ``[heads, n_ctx, d_value,
            d_value]``.
        at_end: ``N_L`` at one position: ``[d_model, d_model]``.
        head_error: ``[heads, n_ctx]``
    """

    at_head: np.ndarray
    at_end: np.ndarray
    head_error: np.ndarray
    end_error: float


@overflow_is_refused
def position_path_moments(model: HostModel, position: int) -> Moments:
    """Moments over paths of heads and positions: ``N += Σ_h W_Oᵀ (starts + P W_Vᵀ N W_V) W_O``."""
    n_heads, n_ctx, d_value = model.V.shape
    d_model = model.direct.shape[1]
    P, norms = model.A**2, norms_of(model)
    at_head = np.zeros((n_heads, n_ctx, d_value, d_value))
    head_error = np.zeros((n_heads, n_ctx))
    N, error = np.zeros((n_ctx, d_model, d_model)), np.zeros(n_ctx)
    last = model.layer.max(initial=-1)
    for layer in range(last + 1):
        heads = np.flatnonzero(model.layer == layer)
        if layer:  # one product for all heads: most of the work is here and in the update
            side = np.concatenate(model.W_V[heads], axis=1)
            read = (N.reshape(-1, d_model) @ side).reshape(n_ctx, d_model, len(heads), d_value)
            size = norm(N, (-2, -1))
            for i, head in enumerate(heads):
                at_head[head] = model.W_V[head].T @ read[:, :, i]
                head_error[head] = _sandwich(
                    error, size, norms.V_spectral[head], norms.V[head], 2 * d_model
                )
        # After the last layer only one position is asked for.
        where = slice(None) if layer < last else slice(position, position + 1)
        inner = []
        for head in heads:
            read_of, b_V = model.read_from(head), model.b_V[head][None]
            starts = _mix(P[head][where], _outer(read_of)) + _outer(b_V)[where]
            inner.append(starts + _mix(P[head][where], at_head[head]))
            missed = _start_error(model, norms, P, head)[where]
            deep = norm(at_head[head], (-2, -1))
            missed = missed + P[head][where] @ (head_error[head] + lost(n_ctx) * deep)
            # A square that underflows may meet a large number.
            missed += floor(np.abs(model.A[head][where])) @ (deep + head_error[head])
            error[where] += _sandwich(
                missed,
                norm(inner[-1], (-2, -1)),
                norms.O_spectral[head],
                norms.O[head],
                d_value * (1 + len(heads)),
            )
        right = np.concatenate([y @ model.W_O[h] for y, h in zip(inner, heads, strict=True)], 1)
        N[where] += np.concatenate(model.W_O[heads]).T @ right
        error[where] += lost(0) * norm(N[where], (-2, -1))
    require_finite("squares of what paths bring", at_head, N, head_error, error)
    return Moments(at_head, N[position], head_error, float(error[position]))


def _sandwich(
    error: np.ndarray, size: np.ndarray, by: np.floating, scale: np.floating, n: int
) -> np.ndarray:
    """Error of ``Wᵀ X W``, for X of an error and a norm and W of a spectral and another norm."""
    rounding = scale * (scale * (lost(n) * size))
    return by * (by * error) + rounding + (1 + scale) * floor(scale, size + error)


def _start_error(
    model: HostModel, norms: Norms, P: np.ndarray, head: int | np.integer
) -> np.ndarray:
    """Error of the moments of sources that start at a head."""
    read, missed = norms.read[head], norms.read_error[head]
    n_sources, n_ctx = read.shape
    of_each = 2 * read * missed + lost(n_ctx + n_sources) * read**2
    of_bias = lost(n_sources) * norms.b_V[head] ** 2
    sizes = P[head] @ of_each.sum(axis=0) + of_bias
    return sizes + floor(np.abs(model.A[head]).sum(axis=1) * read.sum() + norms.b_V[head]) * (
        1 + read.max()
    )


def _outer(vectors: np.ndarray) -> np.ndarray:
    """``Σ_q v_q(s) v_q(s)ᵀ`` of vectors ``[q, n_ctx, d]``."""
    by_position = np.swapaxes(vectors, 0, 1)
    return np.swapaxes(by_position, 1, 2) @ by_position


def _mix(P: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """``Σ_s P_ts M(s)``."""
    *before, d, _ = moments.shape
    mixed = P @ moments.reshape(*before, d * d)
    return mixed.reshape(*mixed.shape[:-1], d, d)
