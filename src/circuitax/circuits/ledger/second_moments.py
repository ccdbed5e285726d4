"""Second moments of all completions of a path, which bound the path ledger's search.

``N_l(s) = Σ_q y_q(s) y_q(s)ᵀ`` over the paths q that end at position s and use at least one head,
all in layers below l. For a direction w, ``wᵀ N_l(s) w`` is then the sum of squares of everything
that can precede, which is what the search, going backwards, has still to choose. Products of norms
would bound it far more loosely.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.rounding import (
    exponent_of,
    floor,
    lost,
    norm,
    overflow_is_refused,
    require_finite,
    spectral_norm,
)
from circuitax.circuits.paths.frozen import FrozenModel


class HostModel(NamedTuple):
    """A frozen model on the host in double precision, heads of all layers on one axis.

    Searches use it. ``V`` is what each head reads from a direct path, embedding and the ``b_O``
    of earlier layers included; ``b_V`` what its bias adds at each destination. Numbers so large or
    small that squares might be out of range are divided by powers of two.
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
    size: np.ndarray  # [n_ctx], bound on the embedding with any of the b_O
    exponent: int  # the stream is 2^exponent times what is kept here

    @property
    def n_sources(self) -> int:
        """Number of sources of paths: the embedding, and each MLP."""
        return 1 + self.mlp_direct.shape[0]

    def read_from(self, head: int | np.integer) -> np.ndarray:
        """A head's reads from each source before it, ``[n_sources, src, d_value]``."""
        before = min(int(self.layer[head]), self.mlp_direct.shape[0])
        return np.concatenate([self.V[head][None], self.mlp_V[head, :before]])

    def written(self) -> np.ndarray:
        """Direct writes of each source to the final stream, ``[n_sources, n_ctx, d_model]``."""
        return np.concatenate([self.direct[None], self.mlp_direct])

    def written_error(self) -> np.ndarray:
        """Rounding error of the norms of these writes, ``[n_sources, n_ctx]``."""
        n_layers = int(self.layer.max(initial=-1)) + 1
        own = lost(n_layers) * self.size + floor(self.size)
        return np.concatenate([own[None], np.zeros(self.mlp_direct.shape[:2])])


@overflow_is_refused
def host_model(frozen: FrozenModel) -> HostModel:
    """Copy a frozen model to the host.

    Args:
        frozen: The frozen model of one text, MLPs as sources.

    Raises:
        ValueError: If its stream is dressed, it is post-LN, or anything in it is not finite, as in
            a model that diverged.
    """
    if frozen.norms is not None:
        raise ValueError(
            "frozen.norms must be None: in post-LN there is no ledger; path_streams(frozen) has "
            "the paths by order"
        )
    if frozen.maps is not None:
        raise ValueError(
            'frozen.maps must be None: take frozen_model(run, mlps="sources"), or dressed_model'
        )
    n_layers, n_heads, n_ctx, _ = frozen.A.shape
    d_value, d_model = frozen.W_O.shape[2:]
    count = n_layers * n_heads
    embedding = np.asarray(frozen.embedding, np.float64)
    A = np.asarray(frozen.A, np.float64).reshape(count, n_ctx, n_ctx)
    W_V = np.asarray(frozen.W_V, np.float64).reshape(count, d_model, d_value)
    W_O = np.asarray(frozen.W_O, np.float64).reshape(count, d_value, d_model)
    b_V, b_O = np.zeros((count, n_ctx, d_value)), np.zeros((n_layers, d_model))
    mlps = np.zeros((0, *embedding.shape))
    if frozen.b_V is not None:
        b_V = np.asarray(frozen.b_V, np.float64).reshape(b_V.shape)
    if frozen.b_O is not None:
        b_O = np.asarray(frozen.b_O, np.float64)
    if frozen.mlps is not None:
        mlps = np.asarray(frozen.mlps, np.float64)
    given = {"A": A, "W_V": W_V, "W_O": W_O, "b_V": b_V, "b_O": b_O, "mlps": mlps}
    for name, array in {**given, "embedding": embedding}.items():
        require_finite(f"frozen.{name}", array)
    # Powers of two change no digit, so that ordinary models are as they were.
    stream = exponent_of(embedding, b_O, mlps)
    embedding, b_O, mlps = (np.ldexp(x, -stream) for x in (embedding, b_O, mlps))
    of_A, of_V = (np.array([exponent_of(x) for x in each], int) for each in (A, W_V))
    A, W_V = (np.ldexp(x, -e[:, None, None]) for x, e in ((A, of_A), (W_V, of_V)))
    b_V = np.ldexp(b_V, -(of_A + of_V + stream)[:, None, None])
    W_O = np.ldexp(W_O, (of_A + of_V)[:, None, None])
    before = np.concatenate([np.zeros((1, d_model)), np.cumsum(b_O, axis=0)])
    layer = np.repeat(np.arange(n_layers), n_heads)
    earlier = np.arange(len(mlps)) < layer[:, None]
    host = HostModel(
        A,
        (embedding[None] + before[layer][:, None]) @ W_V,
        W_V,
        W_O,
        b_V,
        layer,
        embedding + before[-1],
        (mlps[None] @ W_V[:, None]) * earlier[:, :, None, None],
        mlps,
        norm(embedding) + norm(b_O).sum(),
        stream,
    )
    require_finite("frozen, in units in which most of it is about 1,", *host[:-1])
    return host


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
    """Norms, each with its rounding error.

    Args:
        model: The model on the host.
    """
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

    The exact matrices are these, each with at most its error times the identity more or less.

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
    """Moments over paths of heads and positions: ``N += Σ_h W_Oᵀ (starts + P W_Vᵀ N W_V) W_O``.

    They are the exact sums of squares up to rounding, since no two paths share a term.

    Args:
        model: The model on the host.
        position: Where the completions may end.

    Raises:
        ValueError: If squares overflow.
    """
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
