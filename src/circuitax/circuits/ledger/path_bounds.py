"""Bounds on every path that a head path can still be extended to, for the ledger's search.

Wanted is one matrix M for each head and position with ``(u · y_q(s))² <= uᵀ M(s) u`` for *every*
path q that ends there, whatever the direction u. The sum of all ``y_q y_qᵀ`` would do, but it
counts all paths together, where the largest one matters. So the matrices of groups of paths are
joined by ``(Σ_g M_g²)^(1/2)`` instead of ``Σ_g M_g``: the square root preserves the order of
matrices (Löwner), so this is no less than each M_g, and for n equal groups it grows by √n only.

Eigenvectors of one small matrix for every head and position are nearly all of the time. LAPACK lets
other threads of Python run meanwhile, so that the heads of a layer share the cores.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.one_thread import one_thread
from circuitax.circuits.ledger.second_moments import HostModel

_RANK = 12  # directions of a matrix that are kept apart; the others are bounded by the next one
_ROUNDING = 1e-14  # added to every root, relative to its largest eigenvalue: what sums may lose


class PathBounds(NamedTuple):
    """``M`` of all paths through at least one head, where the search asks for it."""

    at_head: np.ndarray
    """In the value space of every head: ``[heads, n_ctx, d_value, d_value]``."""
    at_end: np.ndarray
    """Of paths whose last head is h, before its ``W_O``, at one position: ``[heads, d_value,
    d_value]``."""


def head_path_bounds(model: HostModel, position: int) -> PathBounds:
    """Bounds on paths of heads, summed over positions.

    ``(Σ_s A_ts y_s)² <= (Σ_s |A_ts|) Σ_s |A_ts| y_s²`` (Cauchy-Schwarz) at every step but the
    first, whose vector is known exactly. Patterns of a softmax are not negative; others may be.

    Args:
        model: The model on the host.
        position: Where paths may end.

    Source: ours; docs/methods/path-ledger.md. That roots keep the order of matrices is the
        inequality of Löwner and Heinz.
    """
    with one_thread():
        return _bounds(model, position)


def _bounds(model: HostModel, position: int) -> PathBounds:
    """`head_path_bounds`, layer by layer; the heads of a layer side by side."""
    n_heads, n_ctx, d = model.V.shape
    size = np.abs(model.A)
    mass = size * size.sum(axis=-1, keepdims=True)
    at_head = np.zeros((n_heads, n_ctx, d, d))
    # A matrix is FᵀF and what is left, at most the next eigenvalue times the identity.
    kept = min(_RANK, d)
    factors, left = np.zeros((n_heads, n_ctx, kept, d)), np.zeros((n_heads, n_ctx))
    at_end = np.zeros((n_heads, d, d))

    def root(head: int) -> None:
        squares = _squares_of_starts(model, head)
        deep = (mass[head] @ at_head[head].reshape(n_ctx, -1)).reshape(n_ctx, d, d)
        squares += deep @ deep
        if model.layer[head] == last:  # nothing comes later that would read another position
            values, vectors = _eigen(squares[position])
            at_end[head] = (vectors * np.sqrt(values)) @ vectors.T
            return
        values, vectors = _eigen(squares)
        roots = np.sqrt(values)
        sides = (vectors * np.sqrt(roots)[:, None, :])[..., -kept:]
        factors[head] = np.swapaxes(sides, 1, 2)
        left[head] = roots[:, -kept - 1] if kept < d else 0.0
        at_end[head] = (vectors[position] * roots[position]) @ vectors[position].T

    last = int(model.layer.max(initial=-1))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for layer in range(last + 1):
            heads = [int(head) for head in np.flatnonzero(model.layer == layer)]
            before = heads[0]
            # Heads that share their values share this bound.
            same = {h: _first_with_values_of(model, h, heads) for h in heads if layer}
            through = partial(_through, model, factors=factors[:before], left=left[:before])
            distinct = sorted(set(same.values()))
            found = dict(zip(distinct, threads.map(through, distinct), strict=True))
            for head, first in same.items():
                at_head[head] = found[first]
            list(threads.map(root, heads))
    return PathBounds(at_head, at_end)


def _first_with_values_of(model: HostModel, head: int, heads: list[int]) -> int:
    return next(h for h in heads if np.array_equal(model.W_V[h], model.W_V[head]))


def _squares_of_starts(model: HostModel, head: int) -> np.ndarray:
    """``Σ (v vᵀ)²`` over what the head brings from each source of paths."""
    first = model.A[head] @ model.read_from(head)
    first[0] += model.b_V[head]
    scaled = np.swapaxes(first * np.linalg.norm(first, axis=-1, keepdims=True), 0, 1)
    return np.swapaxes(scaled, 1, 2) @ scaled


def _through(model: HostModel, head: int, factors: np.ndarray, left: np.ndarray) -> np.ndarray:
    """What all earlier heads bring into the value space of one, joined."""
    n, n_ctx, rank, d = factors.shape
    maps = (model.W_O[:n].reshape(n * d, -1) @ model.W_V[head]).reshape(n, d, d)
    seen = (factors.reshape(n, -1, d) @ maps).reshape(n, n_ctx, rank, d)
    seen = np.ascontiguousarray(np.swapaxes(seen, 0, 1))
    turned = (seen @ np.swapaxes(seen, 2, 3)) @ seen
    # One product over all earlier heads at each position: Σ (GᵀG)².
    rows = [part.reshape(n_ctx, -1, d) for part in (turned, seen)]
    values, vectors = _eigen(np.swapaxes(rows[0], 1, 2) @ rows[1])
    joined = (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    rest = left.T @ (np.swapaxes(maps, 1, 2) @ maps).reshape(n, -1)
    return joined + rest.reshape(n_ctx, d, d)


def _eigen(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rising and safely above zero, and eigenvectors of positive matrices."""
    values, vectors = np.linalg.eigh(squares)
    return np.maximum(values, 0) + _ROUNDING * np.maximum(values[..., -1:], 0), vectors
