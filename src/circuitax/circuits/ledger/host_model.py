"""The frozen model on the host, in double precision, with covers of what rounding does to it.

A sum of n products in float64, in whatever order, misses by at most ``n u / (1 - n u)`` times the
sum of the absolute values, with ``u = 2^-53``. `lost` is twice that: the other half is for the
rounding of the error terms themselves, which are sums and products of positive numbers. What
underflows misses by less than `FLOOR` in numbers of about 1, to which a search scales its model.
"""

import math
from contextlib import AbstractContextManager
from functools import cache, reduce
from itertools import zip_longest
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from threadpoolctl import ThreadpoolController

from circuitax.circuits.paths.frozen import FrozenModel


def one_thread() -> AbstractContextManager[object]:
    """Context in which NumPy's BLAS and LAPACK use one thread of this process."""
    found: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return found


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries


FLOOR = 1e-300
_TINY = 1e-250  # squares that underflow are nothing beside it
# What is not finite is named in one line (`require_finite`), without NumPy's warnings before it.
overflow_is_refused = np.errstate(over="ignore", invalid="ignore")
# Largest entries between 2^-100 and 2^100 are left as they are.
_WIDE = 100


def lost(n: int) -> float:
    """Rounding error of a sum of n products, relative to the sum of the absolute values."""
    return (n + 8) * 2.0**-52


def floor(*sizes: np.ndarray | np.floating) -> Float[np.ndarray, "*any"]:
    """Underflow error of a product: 0 where a factor is 0."""
    return np.asarray(FLOOR * reduce(np.logical_and, (np.greater(size, 0) for size in sizes)))


def unit_of(size: np.ndarray) -> Float[np.ndarray, "*any"]:
    """Powers of two near some sizes, which divide numbers and change no digit; 1 at 0."""
    return np.asarray(np.ldexp(1.0, np.clip(np.frexp(size)[1], -1000, 1000)))


def norm(x: np.ndarray, axes: int | tuple[int, ...] = -1) -> np.ndarray:
    """Euclidean or Frobenius norms along the last axes, of entries of any size."""
    kept = x.shape[: x.ndim - np.size(axes)]
    flat = x.reshape(*kept, math.prod(x.shape[len(kept) :]))
    squares = np.einsum("...i,...i->...", flat, flat)
    found, far = np.asarray(np.sqrt(squares)), ~((squares > _TINY) & (squares < 1 / _TINY))
    if far.any():  # squares may be out of range
        rows = flat[far]
        unit = unit_of(np.abs(rows).max(axis=-1, initial=0.0))
        found[far] = np.sqrt(((rows / unit[:, None]) ** 2).sum(axis=-1)) * unit
    return found


def spectral_norm(W: Float[np.ndarray, "*any n m"]) -> Float[np.ndarray, "*any"]:
    """Upper bounds on the largest singular values, from the smaller of both Gram matrices."""
    exponent = np.frexp(np.abs(W).max(axis=(-2, -1), keepdims=True, initial=0.0))[1]
    scaled = np.ldexp(W, -exponent)
    if W.shape[-1] > W.shape[-2]:
        scaled = np.swapaxes(scaled, -1, -2)
    gram = np.swapaxes(scaled, -1, -2) @ scaled
    square = np.linalg.eigvalsh(gram)[..., -1]
    # The trace bounds every norm of a Gram matrix, and so what its sums and eigenvalues lose.
    trace = np.trace(gram, axis1=-2, axis2=-1)
    return np.ldexp(np.sqrt(square + lost(sum(W.shape[-2:]) * 8) * trace), exponent[..., 0, 0])


def exponent_of(*arrays: np.ndarray) -> int:
    """Exponent of the power of two that scales the largest entry to about 1; 0 if it nearly is."""
    largest = max((float(np.abs(x).max(initial=0.0)) for x in arrays), default=0.0)
    exponent = int(np.frexp(largest)[1])
    return 0 if abs(exponent) <= _WIDE else exponent


def require_finite(what: str, *arrays: np.ndarray) -> None:
    """Refuse infinite and NaN: comparisons with NaN are false, and such paths would be dropped."""
    if not all(np.isfinite(x).all() for x in arrays):
        raise ValueError(f"{what} must be finite; a path ledger is no proof otherwise")


def on_final_stream(
    name: str, frozen: FrozenModel, position: int, direction: Array
) -> tuple[Float[np.ndarray, " d_model"], int]:
    """The direction on the final stream, divided by a power of two, and its exponent."""
    check_host(name, (frozen, direction))
    w, d_model = np.asarray(direction, np.float64), frozen.embedding.shape[1]
    if w.shape != (d_model,):
        raise ValueError(f"direction has shape {w.shape}, must be ({d_model},), d_model")
    if not np.isfinite(w).all():
        raise ValueError("direction must be finite")
    if frozen.read_out.scale is not None:
        w = w / float(frozen.read_out.scale[position])
        require_finite("direction divided by the scale of the final norm", w)
    unit = exponent_of(w)
    return np.ldexp(w, -unit), unit


def check_host(name: str, given: Any) -> None:
    """Refuse traced arrays, which have no concrete values."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
        raise ValueError(
            f"{name} searches on the host and must be called outside jit, vmap and grad; "
            "head_path_values of the paths it finds works inside"
        )


def check_bounds(made_of: tuple[Any, int], asked: tuple[Any, int]) -> None:
    """Refuse bounds of another position, or of another run: both are a model and a position."""
    if made_of[1] != asked[1]:
        raise ValueError(f"bounds are of position {made_of[1]}, must be of {asked[1]}")
    pairs = zip_longest(jax.tree.leaves(made_of[0]), jax.tree.leaves(asked[0]))
    if not all(a is b or np.array_equal(a, b) for a, b in pairs):
        raise ValueError("bounds are of another run or model than frozen, must be made from it")


class HostModel(NamedTuple):
    """A frozen model on the host in double precision, heads of all layers on one axis."""

    A: np.ndarray  # [heads, dest, src]
    W_V: np.ndarray  # [heads, d_model, d_value]
    W_O: np.ndarray  # [heads, d_value, d_model]
    b_V: np.ndarray  # [heads, dest, d_value]
    layer: np.ndarray  # [heads]
    reads: list[np.ndarray]  # what the heads of each layer read: [n_heads, n_sources, src, d_value]
    direct: np.ndarray  # [n_ctx, d_model], what the direct path writes
    mlp_direct: np.ndarray  # [n_mlps, n_ctx, d_model]
    size: np.ndarray  # [n_ctx], bound on the embedding with any of the b_O
    exponent: int  # the stream is 2^exponent times what is kept here

    @property
    def n_sources(self) -> int:
        """Number of sources of paths: the embedding, and each MLP."""
        return 1 + self.mlp_direct.shape[0]

    def heads(self, layer: int) -> slice:
        """The heads of a layer."""
        n_heads = len(self.reads[layer])
        return slice(layer * n_heads, (layer + 1) * n_heads)

    def written(self) -> np.ndarray:
        """Direct writes of each source to the final stream, ``[n_sources, n_ctx, d_model]``."""
        return np.concatenate([self.direct[None], self.mlp_direct])

    def written_error(self) -> np.ndarray:
        """Rounding error of the norms of these writes, ``[n_sources, n_ctx]``."""
        own = lost(len(self.reads)) * self.size + floor(self.size)
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
    of_A, of_V = (np.array([exponent_of(x) for x in each], int) for each in (A, W_V))
    if stream or of_A.any() or of_V.any():
        embedding, b_O, mlps = (np.ldexp(x, -stream) for x in (embedding, b_O, mlps))
        A, W_V = (np.ldexp(x, -e[:, None, None]) for x, e in ((A, of_A), (W_V, of_V)))
        b_V = np.ldexp(b_V, -(of_A + of_V + stream)[:, None, None])
        W_O = np.ldexp(W_O, (of_A + of_V)[:, None, None])
    before = np.concatenate([np.zeros((1, d_model)), np.cumsum(b_O, axis=0)])
    streams = [np.stack([embedding + b, *mlps[:n]]) for n, b in enumerate(before[:-1])]
    of_each = W_V.reshape(n_layers, n_heads, 1, d_model, d_value)
    host = HostModel(
        A,
        W_V,
        W_O,
        b_V,
        np.repeat(np.arange(n_layers), n_heads),
        [x @ W for x, W in zip(streams, of_each, strict=True)],
        embedding + before[-1],
        mlps,
        norm(embedding) + norm(b_O).sum(),
        stream,
    )
    require_finite("frozen, in units in which most of it is about 1,", *jax.tree.leaves(host[:-1]))
    return host


def values_of(W_V: np.ndarray, layer: np.ndarray) -> np.ndarray:
    """For each head the first one of its layer with the same W_V; grouped queries share it."""
    first = np.arange(len(layer))
    for head in range(1, len(layer)):
        before = first[head - 1]
        if layer[before] == layer[head] and np.array_equal(W_V[before], W_V[head]):
            first[head] = before
    return first
