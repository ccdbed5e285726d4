"""Bounds on every path that a head path can still be extended to, for the ledger's search.

Wanted is one matrix M for each head and position with ``(u · y_q(s))² <= uᵀ M(s) u`` for *every*
path q that ends there, whatever the direction u. The sum of all ``y_q y_qᵀ`` would do, but it
counts all paths together, where the largest one matters. So the matrices of groups of paths are
joined by ``(Σ_g M_g²)^(1/2)`` instead of ``Σ_g M_g``: the square root preserves the order of
matrices (Löwner), so this is no less than each M_g, and for n equal groups it grows by √n only.
"""

from typing import NamedTuple

import numpy as np

from circuitax.circuits.one_thread import one_thread
from circuitax.circuits.second_moments import HostModel

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
    """`head_path_bounds`, layer by layer."""
    n_heads, n_ctx, d = model.V.shape
    size = np.abs(model.A)
    mass = size * size.sum(axis=-1, keepdims=True)
    at_head = np.zeros((n_heads, n_ctx, d, d))
    # A matrix is FᵀF and what is left, at most the next eigenvalue times the identity.
    kept = min(_RANK, d)
    factors, left = np.zeros((n_heads, n_ctx, kept, d)), np.zeros((n_heads, n_ctx))
    at_end = np.zeros((n_heads, d, d))
    for layer in range(model.layer.max(initial=-1) + 1):
        heads = np.flatnonzero(model.layer == layer)
        before = int(heads[0])
        for first in heads if layer else []:
            same = [h for h in heads if np.array_equal(model.W_V[h], model.W_V[first])]
            if same[0] == first:  # heads that share their values share this bound
                at_head[same] = _through(model, int(first), factors[:before], left[:before])
        for head in heads:
            squares = _squares_of_starts(model, int(head))
            deep = (mass[head] @ at_head[head].reshape(n_ctx, -1)).reshape(n_ctx, d, d)
            values, vectors = _eigen(squares + deep @ deep)
            roots = np.sqrt(values)
            sides = (vectors * np.sqrt(roots)[:, None, :])[..., -kept:]
            factors[head] = np.swapaxes(sides, 1, 2)
            left[head] = roots[:, -kept - 1] if kept < d else 0.0
            at_end[head] = (vectors[position] * roots[position]) @ vectors[position].T
    return PathBounds(at_head, at_end)


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
    return np.maximum(values, 0) + _ROUNDING * np.maximum(values[:, -1:], 0), vectors
