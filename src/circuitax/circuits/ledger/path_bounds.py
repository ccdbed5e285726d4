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
    unit_of,
    values_of,
)
from circuitax.circuits.sites import shown
from circuitax.cores import n_cores


class Norms(NamedTuple):
    """Norms of a host model, and rounding errors of its heads' reads."""

    V: np.ndarray  # [heads], Frobenius, as O
    O: np.ndarray  # named like W_O
    V_spectral: np.ndarray
    O_spectral: np.ndarray
    read: list[np.ndarray]  # of each layer [n_heads, n_sources, src]: bound on what is exactly read
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
    for layer, computed in enumerate(model.reads):
        at, n_sources = model.heads(layer), computed.shape[1]
        scale, size_before = V[at, None, None], written[:n_sources]
        error = lost(d_model) * (scale * size_before) + floor(scale, size_before)
        error += V_spectral[at, None, None] * lost_before[:n_sources]
        read.append(norm(computed) + error)
        errors.append(error)
    return Norms(V, O, V_spectral, O_spectral, read, errors, norm(model.b_V))


def sum_of_paths(model: HostModel) -> np.ndarray:
    """Sum of all paths, ``[n_ctx, d_model]``: the final stream of the frozen model."""
    written = np.zeros_like(model.direct)
    for layer, read in enumerate(model.reads):
        at = model.heads(layer)
        values = read.sum(axis=1) + written @ model.W_V[at]
        written = written + ((model.A[at] @ values + model.b_V[at]) @ model.W_O[at]).sum(axis=0)
    return model.written().sum(axis=0) + written


class Moments(NamedTuple):
    """Second moments of non-empty completions, at the heads and positions of the search.

    Attributes:
        at_head: ``W_Vᵀ N_l(s) W_V`` for every head, l its layer: ``[heads, n_ctx, d_value,
            d_value]``.
        at_end: ``N_L`` at one position: ``[d_model, d_model]``.
        head_error: ``[heads, n_ctx]``
        norms: Of the model.
    """

    at_head: np.ndarray
    at_end: np.ndarray
    head_error: np.ndarray
    end_error: float
    norms: Norms


@overflow_is_refused
def position_path_moments(model: HostModel, position: int) -> Moments:
    """Moments over paths of heads and positions: ``N += Σ_h W_Oᵀ (starts + P W_Vᵀ N W_V) W_O``."""
    n_heads, n_ctx, d_value = model.b_V.shape
    d_model = model.direct.shape[1]
    P, norms, last = model.A**2, norms_of(model), len(model.reads) - 1
    at_head = np.zeros((n_heads, n_ctx, d_value, d_value))
    head_error = np.zeros((n_heads, n_ctx))
    N, error = np.zeros((n_ctx, d_model, d_model)), np.zeros(n_ctx)
    for layer, starts in enumerate(model.reads):
        at = model.heads(layer)
        W_V, W_O = model.W_V[at], model.W_O[at]
        if layer:  # one product for all heads: most of the work is here and in the update
            read = N.reshape(-1, d_model) @ np.concatenate(W_V, axis=1)
            read = read.reshape(n_ctx, d_model, len(W_V), d_value).transpose(2, 0, 1, 3)
            at_head[at] = np.swapaxes(W_V, 1, 2)[:, None] @ read
            of_V = norms.V_spectral[at, None], norms.V[at, None]
            head_error[at] = _sandwich(error, norm(N, (-2, -1)), *of_V, 2 * d_model)
        # After the last layer only one position is asked for.
        where = slice(None) if layer < last else slice(position, position + 1)
        mixed = P[at, where]
        inner = _mix(mixed, _outer(starts)) + _outer(model.b_V[at, None, where])
        inner += _mix(mixed, at_head[at])
        deep = norm(at_head[at], (-2, -1))
        missed = _start_error(model, norms, P, layer)[:, where]
        missed += _times(mixed, head_error[at] + lost(n_ctx) * deep)
        # A square that underflows may meet a large number.
        missed += _times(floor(np.abs(model.A[at, where])), deep + head_error[at])
        of_O = norms.O_spectral[at, None], norms.O[at, None]
        n_products = d_value * (1 + len(W_O))
        error[where] += _sandwich(missed, norm(inner, (-2, -1)), *of_O, n_products).sum(axis=0)
        right = (np.swapaxes(inner, 0, 1) @ W_O).reshape(-1, len(W_O) * d_value, d_model)
        N[where] += np.concatenate(W_O).T @ right
        error[where] += lost(0) * norm(N[where], (-2, -1))
    require_finite("squares of what paths bring", at_head, N, head_error, error)
    return Moments(at_head, N[position], head_error, float(error[position]), norms)


def _sandwich(
    error: np.ndarray, size: np.ndarray, by: np.ndarray, scale: np.ndarray, n: int
) -> np.ndarray:
    """Error of ``Wᵀ X W``, for X of an error and a norm and W of a spectral and another norm."""
    rounding = scale * (scale * (lost(n) * size))
    return by * (by * error) + rounding + (1 + scale) * floor(scale, size + error)


def _start_error(model: HostModel, norms: Norms, P: np.ndarray, layer: int) -> np.ndarray:
    """Error of the moments of sources that start at the heads of a layer, ``[heads, dest]``."""
    at, read, missed = model.heads(layer), norms.read[layer], norms.read_error[layer]
    _, n_sources, n_ctx = read.shape
    of_each = 2 * read * missed + lost(n_ctx + n_sources) * read**2
    sizes = _times(P[at], of_each.sum(axis=1)) + lost(n_sources) * norms.b_V[at] ** 2
    whole, largest = read.sum(axis=(1, 2)), read.max(axis=(1, 2), initial=0.0)
    masses = np.abs(model.A[at]).sum(axis=2) * whole[:, None] + norms.b_V[at]
    return np.asarray(sizes + floor(masses) * (1 + largest[:, None]))


def _outer(vectors: np.ndarray) -> np.ndarray:
    """``Σ_q v_q(s) v_q(s)ᵀ`` of vectors ``[..., q, n_ctx, d]``."""
    by_position = np.swapaxes(vectors, -3, -2)
    return np.swapaxes(by_position, -2, -1) @ by_position


def _mix(P: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """``Σ_s P_ts M(s)`` for each head."""
    *before, d, _ = moments.shape
    mixed = P @ moments.reshape(*before, d * d)
    return mixed.reshape(*mixed.shape[:-1], d, d)


def _times(P: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``Σ_s P_ts x_s`` for each head."""
    return np.asarray((P @ x[..., None])[..., 0])


_RANK = 12  # directions of a matrix that are kept apart; the others are bounded by the next one
CACHED = 2**16  # numbers that are taken at once, so that they stay in a core's cache
_LAPACK = 16  # units of the last place that an eigenvalue may miss, for each row


class PathBounds(NamedTuple):
    """``M`` of all paths through at least one head, at the heads and positions of the search.

    Attributes:
        at_head: In the value space of every head: ``[heads, n_ctx, d_value, d_value]``.
        at_end: Of paths whose last head is h, before its ``W_O``, at one position: ``[heads,
            d_value, d_value]``.
        made_of: The model and the position that they are for.
        norms: Of the model.
    """

    at_head: np.ndarray
    at_end: np.ndarray
    made_of: tuple[HostModel, int]
    norms: Norms


def head_path_bounds(model: HostModel, position: int) -> PathBounds:
    """Bounds on paths of heads, summed over positions.

    ``(Σ_s A_ts y_s)² <= (Σ_s |A_ts|) Σ_s |A_ts| y_s²`` (Cauchy-Schwarz) at every step but the
    first, whose vector is known exactly. Patterns of a softmax are not negative; others may be.

    Source: ours; docs/methods/path-ledger.md. That roots keep the order of matrices is the
        inequality of Löwner and Heinz.
    """
    n_heads, n_ctx, d = model.b_V.shape
    norms, last, cores = norms_of(model), len(model.reads) - 1, n_cores()
    values, size = values_of(model.W_V, model.layer), np.abs(model.A)
    mass = size * size.sum(axis=-1, keepdims=True)
    at_head, at_end = np.zeros((n_heads, n_ctx, d, d)), np.zeros((n_heads, d, d))
    # A matrix is FᵀF and what is left, at most the next eigenvalue times the identity.
    kept = min(_RANK, d)
    factors, left = np.zeros((n_heads, n_ctx, kept, d)), np.zeros((n_heads, n_ctx))

    @overflow_is_refused
    def root(layer: int, some: np.ndarray) -> None:
        heads = some + model.heads(layer).start
        first, moved = _starts(model, norms, layer, some)
        deep, of_deep = _mix(mass[heads], at_head[heads]), norm(at_head[heads], (-2, -1))
        rounded = lost(2 * n_ctx) * _times(mass[heads], of_deep)
        moved = np.maximum(moved, rounded + _times(floor(size[heads]), of_deep))
        sizes, deep_size = norm(first), norm(deep, (-2, -1))
        unit = unit_of(np.maximum(sizes.max(axis=-1), np.sqrt(deep_size)))
        by, sizes = unit[..., None, None], sizes / unit[..., None]
        scaled, deep = first / by * sizes[..., None], deep / by / by
        squares = np.swapaxes(scaled, -2, -1) @ scaled + deep @ deep
        error = lost(first.shape[-2] + 4 * d) * (
            (sizes**4).sum(axis=-1) + (deep_size / unit / unit) ** 2
        )
        # After the last layer nothing reads another position.
        here = slice(None) if layer < last else slice(position, position + 1)
        roots, vectors = _roots(*(part[:, here] for part in (squares, error, unit, moved)))
        at = position - (here.start or 0)
        at_end[heads] = _joined(roots[:, at], vectors[:, at])
        if layer < last:
            sides = vectors * np.sqrt(roots)[..., None, :]
            factors[heads] = np.swapaxes(sides[..., -kept:], -2, -1)
            left[heads] = roots[..., -kept - 1] if kept < d else 0.0

    with one_thread(), ThreadPoolExecutor(cores) as threads:
        for layer in shown(range(last + 1), "bounds of paths"):
            at = model.heads(layer)
            if layer:
                # Heads that share their values share this bound.
                distinct = sorted(set(values[at].tolist()))
                earlier = factors[: at.start], norm(factors[: at.start], (2, 3)), left[: at.start]
                side = np.concatenate(model.W_V[distinct], axis=1)
                maps = model.W_O[: at.start].reshape(-1, len(side)) @ side
                maps = maps.reshape(at.start, d, len(distinct), d).transpose(2, 0, 1, 3)
                through = threads.map(partial(_through, model, norms, earlier), distinct, maps)
                found = dict(zip(distinct, through, strict=True))
                at_head[at] = [found[first] for first in values[at]]
            chunks = np.array_split(np.arange(at.stop - at.start), cores)
            list(threads.map(partial(root, layer), chunks))
    require_finite("squares of what paths bring", at_head, at_end)
    return PathBounds(at_head, at_end, (model, position), norms)


def _starts(
    model: HostModel, norms: Norms, layer: int, some: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of some heads of a layer for each source, ``[heads, n_ctx, n_sources, d]``.

    And by how much the exact ``v vᵀ`` of any of them may be above the computed one.
    """
    heads = some + model.heads(layer).start
    A, b_V = model.A[heads], norms.b_V[heads]
    first = A[:, None] @ model.reads[layer][some]
    first[:, 0] += model.b_V[heads]
    n_ctx, read = A.shape[-1], norms.read[layer][some]
    by_source = np.swapaxes(np.abs(A), 1, 2)
    error = (norms.read_error[layer][some] + lost(n_ctx) * read) @ by_source
    error += read @ floor(by_source)
    error[:, 0] += lost(0) * b_V + floor(b_V)
    moved = error * (2 * norm(first) + error) + floor(error)
    return np.swapaxes(first, 1, 2), moved.max(axis=1)


@overflow_is_refused
def _through(
    model: HostModel,
    norms: Norms,
    earlier: tuple[np.ndarray, np.ndarray, np.ndarray],
    head: int,
    maps: np.ndarray,
) -> np.ndarray:
    """Outputs of all earlier heads in the value space of one head, joined.

    Of the earlier heads: factors, their norms, and what is left; and maps ``W_O W_V`` to the head.
    """
    factors, of_factor, left = earlier
    n, n_ctx, rank, d = factors.shape
    of_map, of_seen, squares = norm(maps, (1, 2)), np.zeros((n, n_ctx)), np.zeros((n_ctx, d, d))
    # No factor that is seen is larger; what underflows beside it is nothing beside `in_seen`.
    unit = unit_of((of_factor * of_map[:, None]).max(axis=0))
    for start in range(0, n, some := max(CACHED // factors[0].size, 1)):
        at = slice(start, start + some)
        seen = (factors[at].reshape(-1, n_ctx * rank, d) @ maps[at]).reshape(-1, n_ctx, rank, d)
        of_seen[at] = norm(seen, (2, 3))
        seen = np.divide(np.swapaxes(seen, 0, 1), unit[:, None, None, None], order="C")
        # BLAS multiplies a copy sooner than a view.
        turned = seen @ np.swapaxes(seen, 2, 3).copy() @ seen
        # One product over these heads at each position: Σ (GᵀG)².
        rows = [part.reshape(n_ctx, -1, d) for part in (turned, seen)]
        squares += np.swapaxes(rows[0], 1, 2) @ rows[1]
    in_map = lost(model.W_V.shape[1]) * norms.O[:n] * norms.V[head]
    in_map += floor(norms.O[:n], norms.V[head])
    in_seen = of_factor * (in_map + lost(d) * of_map)[:, None] + floor(of_factor, in_map[:, None])
    moved = (in_seen * (2 * of_seen + in_seen) + floor(in_seen)).max(axis=0)
    in_square = in_map * (2 * of_map + in_map) + lost(n + d) * of_map**2 + floor(in_map)
    moved += left.T @ in_square + floor(left.T, in_map).sum(axis=1)
    error = lost(n * rank + 2 * rank + 2 * d) * ((of_seen / unit) ** 4).sum(axis=0)
    roots, vectors = _roots(squares, error, unit, moved)
    rest = left.T @ (np.swapaxes(maps, 1, 2).copy() @ maps).reshape(n, -1)
    return _joined(roots, vectors) + rest.reshape(n_ctx, d, d)


def _roots(
    squares: np.ndarray, error: np.ndarray, unit: np.ndarray, moved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rising eigenvalues, and vectors, of ``unit²`` times a root, no less than the exact root."""
    require_finite("squares of what paths bring", squares)
    lapack = lost(_LAPACK * squares.shape[-1])
    values, vectors = np.linalg.eigh(squares)
    error = error + lapack * np.abs(values).sum(axis=-1)
    roots = np.sqrt(np.maximum(values, 0) + error[..., None]) * unit[..., None] * unit[..., None]
    # The last part is for the product of eigenvectors and roots.
    return roots + (moved + lapack * (roots[..., -1] + moved))[..., None], vectors


def _joined(roots: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Matrices of some eigenvalues and eigenvectors."""
    return np.asarray((vectors * roots[..., None, :]) @ np.swapaxes(vectors, -2, -1))
