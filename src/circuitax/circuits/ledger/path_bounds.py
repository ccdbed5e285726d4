"""Bounds on all extensions of a head path, for the ledger's search.

``N_l(s) = Σ_q y_q(s) y_q(s)ᵀ`` over the paths q that end at position s and use at least one head,
all in layers below l. For a direction w, ``wᵀ N_l(s) w`` is then the sum of squares of everything
that can precede, which is what the search, going backwards, has still to choose. Products of norms
would bound it far more loosely.

Wanted is one matrix M for each head and position with ``(u · y_q(s))² <= uᵀ M(s) u`` for *every*
path q that ends there, whatever the direction u. The sum of all ``y_q y_qᵀ`` would do, but it
counts all paths together, where the largest one matters. So the matrices of groups of paths are
joined by ``(Σ_g M_g²)^(1/2)`` instead of ``Σ_g M_g``: the square root preserves the order of
matrices (Löwner), so this is no less than each M_g, and for n equal groups it grows by √n only.

Rounding is covered twice (`host_model`): what it does to a sum of squares, and LAPACK to its
eigenvalues, is added to these before the root, and what it did to the parts that were squared, to
the root. LAPACK is taken to be right to 16 units of the last place for each row of a matrix.

Eigenvectors of one small matrix for every head and position are nearly all of the time. LAPACK lets
other threads of Python run meanwhile, so that the heads of a layer share the cores.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from circuitax.circuits.ledger.host_model import (
    HostModel,
    floor,
    lost,
    norm,
    one_thread,
    overflow_is_refused,
    require_finite,
    spectral_norm,
)
from circuitax.circuits.sites import shown
from circuitax.cores import n_cores


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


_RANK = 12  # directions of a matrix that are kept apart; the others are bounded by the next one
_LEAST = -4096  # below the exponent of any number
_LAPACK = 16  # units of the last place that an eigenvalue may miss, for each row


class PathBounds(NamedTuple):
    """``M`` of all paths through at least one head, at the heads and positions of the search.

    Attributes:
        at_head: In the value space of every head: ``[heads, n_ctx, d_value, d_value]``.
        at_end: Of paths whose last head is h, before its ``W_O``, at one position: ``[heads,
            d_value, d_value]``.
        made_of: The model and the position that they are for.
    """

    at_head: np.ndarray
    at_end: np.ndarray
    made_of: tuple[HostModel, int]


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
        for layer in shown(range(last + 1), "bounds of paths"):
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
    return PathBounds(at_head, at_end, (model, position))


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
