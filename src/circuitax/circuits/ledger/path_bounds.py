"""Bounds on all extensions of a head path, for the ledger's search.

Wanted is one matrix M for each head and position with ``(u · y_q(s))² <= uᵀ M(s) u`` for *every*
path q that ends there, whatever the direction u. The sum of all ``y_q y_qᵀ`` would do, but it
counts all paths together, where the largest one matters. So the matrices of groups of paths are
joined by ``(Σ_g M_g²)^(1/2)`` instead of ``Σ_g M_g``: the square root preserves the order of
matrices (Löwner), so this is no less than each M_g, and for n equal groups it grows by √n only.

Rounding is covered twice (`rounding`): what it does to a sum of squares, and LAPACK to its
eigenvalues, is added to these before the root, and what it did to the parts that were squared, to
the root. LAPACK is taken to be right to 16 units of the last place for each row of a matrix.

Eigenvectors of one small matrix for every head and position are nearly all of the time. LAPACK lets
other threads of Python run meanwhile, so that the heads of a layer share the cores.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.host_model import HostModel
from circuitax.circuits.ledger.one_thread import one_thread
from circuitax.circuits.ledger.rounding import (
    floor,
    lost,
    norm,
    overflow_is_refused,
    require_finite,
)
from circuitax.circuits.ledger.second_moments import Norms, norms_of
from circuitax.cores import n_cores

_RANK = 12  # directions of a matrix that are kept apart; the others are bounded by the next one
_LEAST = -4096  # below the exponent of any number
_LAPACK = 16  # units of the last place that an eigenvalue may miss, for each row


class PathBounds(NamedTuple):
    """``M`` of all paths through at least one head, at the heads and positions of the search.

    Attributes:
        at_head: In the value space of every head: ``[heads, n_ctx, d_value, d_value]``.
        at_end: Of paths whose last head is h, before its ``W_O``, at one position: ``[heads,
            d_value, d_value]``.
    """

    at_head: np.ndarray
    at_end: np.ndarray


def head_path_bounds(model: HostModel, position: int) -> PathBounds:
    """Bounds on paths of heads, summed over positions.

    ``(Σ_s A_ts y_s)² <= (Σ_s |A_ts|) Σ_s |A_ts| y_s²`` (Cauchy-Schwarz) at every step but the
    first, whose vector is known exactly. Patterns of a softmax are not negative; others may be.

    Source: ours; docs/methods/path-ledger.md. That roots keep the order of matrices is the
        inequality of Löwner and Heinz.
    """
    with one_thread():
        return _bounds(model, position)


def _bounds(model: HostModel, position: int) -> PathBounds:
    """`head_path_bounds`, layer by layer; the heads of a layer side by side."""
    n_heads, n_ctx, d = model.V.shape
    norms = norms_of(model)
    size = np.abs(model.A)
    mass = size * size.sum(axis=-1, keepdims=True)
    at_head = np.zeros((n_heads, n_ctx, d, d))
    # A matrix is FᵀF and what is left, at most the next eigenvalue times the identity.
    kept = min(_RANK, d)
    factors, left = np.zeros((n_heads, n_ctx, kept, d)), np.zeros((n_heads, n_ctx))
    at_end = np.zeros((n_heads, d, d))

    @overflow_is_refused
    def root(head: int) -> None:
        first, moved = _starts(model, norms, head)
        deep = (mass[head] @ at_head[head].reshape(n_ctx, -1)).reshape(n_ctx, d, d)
        of_deep = norm(at_head[head], (-2, -1))
        rounded = lost(2 * n_ctx) * (mass[head] @ of_deep) + floor(size[head]) @ of_deep
        moved = np.maximum(moved, rounded)
        exponent = np.maximum(_exponent(first, 1), _exponent(deep, 2))
        first = np.ldexp(first, -exponent[:, None, None])
        deep = np.ldexp(deep, -2 * exponent[:, None, None])
        scaled = first * np.linalg.norm(first, axis=-1, keepdims=True)
        squares = np.swapaxes(scaled, 1, 2) @ scaled + deep @ deep
        total = (first**2).sum(axis=-1) ** 2
        error = lost(first.shape[1] + 4 * d) * (total.sum(axis=-1) + (deep**2).sum(axis=(1, 2)))
        if model.layer[head] == last:  # nothing comes later that would read another position
            here = slice(position, position + 1)
            roots, vectors = _roots(squares[here], error[here], exponent[here], moved[here])
            at_end[head] = (vectors[0] * roots[0]) @ vectors[0].T
            return
        roots, vectors = _roots(squares, error, exponent, moved)
        sides = (vectors * np.sqrt(roots)[:, None, :])[..., -kept:]
        factors[head] = np.swapaxes(sides, 1, 2)
        left[head] = roots[:, -kept - 1] if kept < d else 0.0
        at_end[head] = (vectors[position] * roots[position]) @ vectors[position].T

    last = int(model.layer.max(initial=-1))
    with ThreadPoolExecutor(n_cores()) as threads:
        for layer in range(last + 1):
            heads = [int(head) for head in np.flatnonzero(model.layer == layer)]
            before = heads[0]
            # Heads that share their values share this bound.
            same = {h: _first_with_values_of(model, h, heads) for h in heads if layer}
            through = partial(_through, model, norms, factors=factors[:before], left=left[:before])
            distinct = sorted(set(same.values()))
            found = dict(zip(distinct, threads.map(through, distinct), strict=True))
            for head, first in same.items():
                at_head[head] = found[first]
            list(threads.map(root, heads))
    require_finite("squares of what paths bring", at_head, at_end)
    return PathBounds(at_head, at_end)


def _first_with_values_of(model: HostModel, head: int, heads: list[int]) -> int:
    return next(h for h in heads if np.array_equal(model.W_V[h], model.W_V[head]))


def _starts(model: HostModel, norms: Norms, head: int) -> tuple[np.ndarray, np.ndarray]:
    """A head's output for each source of paths, ``[n_ctx, n_sources, d]``.

    And by how much the exact ``v vᵀ`` of any of them may be above the computed one.
    """
    A, b_V = np.abs(model.A[head]), norms.b_V[head]
    first = model.A[head] @ model.read_from(head)
    first[0] += model.b_V[head]
    n_ctx, read = A.shape[0], norms.read[head]
    error = (norms.read_error[head] + lost(n_ctx) * read) @ A.T + read @ floor(A).T
    error[0] += lost(0) * b_V + floor(b_V)
    moved = error * (2 * norm(first) + error) + floor(error)
    return np.swapaxes(first, 0, 1), moved.max(axis=0)


@overflow_is_refused
def _through(
    model: HostModel, norms: Norms, head: int, factors: np.ndarray, left: np.ndarray
) -> np.ndarray:
    """Outputs of all earlier heads in the value space of one head, joined."""
    n, n_ctx, rank, d = factors.shape
    maps = (model.W_O[:n].reshape(n * d, -1) @ model.W_V[head]).reshape(n, d, d)
    seen = (factors.reshape(n, -1, d) @ maps).reshape(n, n_ctx, rank, d)
    of_map, of_factor = norm(maps, (1, 2)), norm(factors, (2, 3))
    in_map = lost(model.W_V.shape[1]) * norms.O[:n] * norms.V[head]
    in_map += floor(norms.O[:n], norms.V[head])
    in_seen = of_factor * (in_map + lost(d) * of_map)[:, None] + floor(of_factor, in_map[:, None])
    moved = (in_seen * (2 * norm(seen, (2, 3)) + in_seen) + floor(in_seen)).max(axis=0)
    in_square = in_map * (2 * of_map + in_map) + lost(n + d) * of_map**2 + floor(in_map)
    moved += left.T @ in_square + floor(left.T, in_map).sum(axis=1)
    seen = np.ascontiguousarray(np.swapaxes(seen, 0, 1))
    exponent = _exponent(seen, 1)
    seen = np.ldexp(seen, -exponent[:, None, None, None])
    turned = (seen @ np.swapaxes(seen, 2, 3)) @ seen
    # One product over all earlier heads at each position: Σ (GᵀG)².
    rows = [part.reshape(n_ctx, -1, d) for part in (turned, seen)]
    error = lost(n * rank + 2 * rank + 2 * d) * ((seen**2).sum(axis=(2, 3)) ** 2).sum(axis=1)
    roots, vectors = _roots(np.swapaxes(rows[0], 1, 2) @ rows[1], error, exponent, moved)
    joined = (vectors * roots[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    rest = left.T @ (np.swapaxes(maps, 1, 2) @ maps).reshape(n, -1)
    return joined + rest.reshape(n_ctx, d, d)


def _exponent(x: np.ndarray, power: int) -> np.ndarray:
    """Exponent of the power of two, for each position, that keeps fourth powers in range."""
    largest = np.abs(x).reshape(len(x), -1).max(axis=1)
    exponent = -(-np.frexp(largest)[1] // power)
    return np.where(largest > 0, exponent, _LEAST)


def _roots(
    squares: np.ndarray, error: np.ndarray, exponent: np.ndarray, moved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rising eigenvalues and eigenvectors of a root that bounds the exact root from above."""
    require_finite("squares of what paths bring", squares)
    unit = lost(_LAPACK * squares.shape[-1])
    values, vectors = np.linalg.eigh(squares)
    error = error + unit * np.abs(values).sum(axis=-1)
    roots = np.sqrt(np.maximum(values, 0) + error[..., None])
    roots = np.ldexp(roots, 2 * exponent[..., None])
    # The last part is for the product of eigenvectors and roots.
    return roots + (moved + unit * (roots[..., -1] + moved))[..., None], vectors
