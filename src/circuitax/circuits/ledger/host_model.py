"""The frozen model on the host, in double precision, as the path ledger searches it."""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.rounding import (
    exponent_of,
    floor,
    lost,
    norm,
    overflow_is_refused,
    require_finite,
)
from circuitax.circuits.paths.frozen import FrozenModel


class HostModel(NamedTuple):
    """A frozen model on the host in double precision, heads of all layers on one axis."""

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
    """Copy a frozen model to the host."""
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
