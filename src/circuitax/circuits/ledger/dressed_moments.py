"""Second moments of all completions of a path in the dressed stream, rounding included.

Between heads the stream passes the MLPs of its position, ``N ← (I + M_s)ᵀ N (I + M_s)``. Thirty
layers of spectral norms would make any rounding error as large as the stream, so that errors are
not followed through norms here. Instead each matrix is raised where it is made until it is no less
than the exact one, and what was added is carried on by the model's own maps:

    |E_ab| <= ε r_a r_b for all a, b  implies  E <= ε d diag(r²)

with ``r = n |W|`` for a product ``Wᵀ N W``, where ``n² = diag N`` bounds the entries of N, ``|N_ij|
<= n_i n_j``. The same r serve the search: a direction w that is carried back through W gains an
error of at most ``ε |W| |w|`` in each coordinate, which no completion y meets with more than
``ε Σ |w| r``, since ``y_a² <= N_aa``.

Paths past no head are computed once, forwards. Errors made on the way travel with the same maps,
and so are carried in the same matrices, times ``1 / CARRIED²``: along any direction whatever, such
a path is right to `CARRIED` times what N says of it.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Float

from circuitax.circuits.ledger.host_model import (
    FLOOR,
    check_host,
    host_model,
    lost,
    one_thread,
    overflow_is_refused,
    require_finite,
    values_of,
)
from circuitax.circuits.paths.frozen import FrozenMLPs, FrozenModel
from circuitax.circuits.sites import shown
from circuitax.cores import n_cores
from circuitax.kernel.checks import counted_index


class DressedModel(NamedTuple):
    """A frozen model in double precision, heads of all layers on one axis.

    Streams are divided by ``2^exponent``, as in `host_model.HostModel`. ``X = I + M`` takes the
    stream past the MLP of a layer. Whichever way it is computed, its entries are right to
    ``lost(n_products)`` times ``I + Y``, Y the product of the absolute values of the factors.
    """

    A: np.ndarray  # [heads, dest, src]
    W_V: np.ndarray  # [heads, d_model, d_value]
    W_O: np.ndarray  # [heads, d_value, d_model]
    b_V: np.ndarray  # [heads, dest, d_value]
    layer: np.ndarray  # [heads]
    values_of: np.ndarray  # [heads]: the first head of the layer with the same W_V
    factors: list[list[np.ndarray]]  # of M, for each layer: see `_factors`
    n_sides: int  # of an MLP that things are attributed to
    after_heads: bool  # whether an MLP reads what the heads of its layer wrote
    b_O: np.ndarray  # [n_layers, d_model]
    constant: np.ndarray  # [n_layers, n_ctx, d_model], of MLPs
    direct: np.ndarray  # [n_layers + 1, n_ctx, d_model]: embedding and constants, past no head
    direct_size: np.ndarray  # [n_layers, n_ctx, d_model]: ``lost(n_products)`` of it, of each step
    final: np.ndarray  # [n_ctx, d_model], the sum of all paths
    exponent: int

    @property
    def n_sources(self) -> int:
        """Number of sources of paths: embedding and constants are one."""
        return 1

    @property
    def n_products(self) -> int:
        """Products that are summed when a stream passes an MLP, those inside its map included."""
        d_model = self.direct.shape[-1]
        return d_model + sum(part.shape[-2] for part in self.factors[0][::2]) + 8

    def spread(self, layer: int, n: Float[np.ndarray, "some d_model"], at: slice) -> np.ndarray:
        """``n (I + Y)`` at some positions: sizes of the sums when a stream of sizes n passes."""
        return _past([np.abs(part) for part in self.factors[layer]], n, at)

    def map_at(self, layer: int, s: int) -> np.ndarray:
        """``X = I + M`` at one position, ``[d_model, d_model]``."""
        parts = self.factors[layer]
        X = _units_at(parts, s) @ parts[-1]
        X.flat[:: len(X) + 1] += 1
        return X

    def units_at(self, layer: int, s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the last hidden units of an MLP read and write at one position, a row a unit.

        Returns:
            Directions that they read, ``[d_mlp, d_model]``; sizes of the sums that made these, of
            which rounding takes a share of ``lost(n_products)``; and what each of them writes.
        """
        parts = self.factors[layer]
        # Both sides of a shallow MLP that shares stand side by side in front of one W_out twice.
        sides = self.n_sides if len(parts) == 3 else 1
        W_out = parts[-1][: len(parts[-1]) // sides]
        read, size = (
            _units_at(some, s).T.reshape(sides, *W_out.shape).sum(axis=0)
            for some in (parts, [np.abs(part) for part in parts])
        )
        return read, size, W_out

    def carried_back(
        self, layer: int, w: Float[np.ndarray, "rows d_model"], at: np.ndarray
    ) -> np.ndarray:
        """``w Xᵀ``: directions behind an MLP, each at its own position, carried in front of it."""
        *parts, W_out = self.factors[layer]
        hidden = w @ W_out.T
        for W, f in zip(parts[-2:0:-2], parts[-1:1:-2], strict=True):
            hidden = (hidden * f[at]) @ W.T
        return w + (hidden * parts[1][at]) @ parts[0].T


def dressed_model(frozen: FrozenModel) -> DressedModel:
    """Copy a frozen model with maps of its MLPs to the host."""
    maps = frozen.maps
    if maps is None:
        raise ValueError("frozen.maps is None: the stream of this model is not dressed")
    for name, array in maps._asdict().items():
        if array is not None:
            require_finite(f"frozen.maps.{name}", np.asarray(array, np.float64))
    # Constants of MLPs are scaled like what MLPs write.
    host = host_model(frozen._replace(maps=None, mlps=maps.constant))
    n_layers = host.mlp_direct.shape[0]
    factors = [_factors(maps, layer) for layer in range(n_layers)]
    everywhere = slice(None)
    embedding = np.ldexp(np.asarray(frozen.embedding, np.float64), -host.exponent)
    b_O = np.zeros((n_layers, embedding.shape[1]))
    if frozen.b_O is not None:
        b_O = np.ldexp(np.asarray(frozen.b_O, np.float64), -host.exponent)
    after_heads = bool(maps.after_heads)
    streams, sizes, whole = [embedding], [], embedding
    for layer in range(n_layers):
        constant, before = host.mlp_direct[layer], streams[-1]
        heads = np.flatnonzero(host.layer == layer)
        written = sum(
            (host.A[h] @ (whole @ host.W_V[h]) + host.b_V[h]) @ host.W_O[h] for h in heads
        )
        if after_heads:
            streams.append(_past(factors[layer], before + b_O[layer], everywhere) + constant)
            whole = _past(factors[layer], whole + written + b_O[layer], everywhere) + constant
        else:
            streams.append(_past(factors[layer], before, everywhere) + b_O[layer] + constant)
            whole = _past(factors[layer], whole, everywhere) + written + b_O[layer] + constant
        size = np.abs(before) + np.abs(b_O[layer])
        through = _past([np.abs(part) for part in factors[layer]], size, everywhere)
        sizes.append(through + np.abs(constant) + size)
    direct = np.stack(streams)
    require_finite("streams of the frozen model", direct, whole)
    return DressedModel(
        host.A,
        host.W_V,
        host.W_O,
        host.b_V,
        host.layer,
        values_of(host.W_V, host.layer),
        factors,
        maps.W_in.shape[1],
        after_heads,
        b_O,
        host.mlp_direct,
        direct,
        np.stack(sizes) if sizes else np.zeros((0, *embedding.shape)),
        whole,
        host.exponent,
    )


def _factors(maps: FrozenMLPs, layer: int) -> list[np.ndarray]:
    """M of a layer as maps and the factors after them: ``W, f, W, f, …, W_out``."""
    double = [np.asarray(x, np.float64) for x in (maps.W_in[layer], maps.factors[layer])]
    sides = len(double[0])
    parts = [x[0] if sides == 1 else np.concatenate(list(x), axis=1) for x in double]
    W_out = np.asarray(maps.W_out[layer], np.float64)
    if maps.W_hidden is None or maps.hidden_factors is None:
        return [*parts, W_out if sides == 1 else np.concatenate([W_out] * sides)]
    first = True
    for W, f in zip(maps.W_hidden[layer], maps.hidden_factors[layer], strict=True):
        W = np.asarray(W, np.float64)
        parts += [np.concatenate([W] * sides) if first else W, np.asarray(f, np.float64)]
        first = False
    return [*parts, W_out]


def _units_at(parts: list[np.ndarray], s: int) -> np.ndarray:
    """``W diag(f) W diag(f) …`` at one position: what the last hidden units read, in columns."""
    units = parts[0] * parts[1][s]
    for W, f in zip(parts[2:-1:2], parts[3:-1:2], strict=True):
        units = (units @ W) * f[s]
    return units


def _past(parts: list[np.ndarray], rows: np.ndarray, at: slice) -> np.ndarray:
    """``rows + rows M``, each row at its own position; M by its factors."""
    hidden = rows
    for W, f in zip(parts[:-1:2], parts[1:-1:2], strict=True):
        hidden = (hidden @ W) * f[at]
    return rows + hidden @ parts[-1]


def product_loss(model: DressedModel) -> float:
    """Rounding of one passage past an MLP, relative to `DressedModel.spread`."""
    return lost(model.n_products)


CARRIED = 2.0**-26
_APART = 2.0**-24  # an error is kept apart from a start at this relative price to its square
_BLOCK = 192  # columns of a symmetric product that are taken at once


class DressedMoments(NamedTuple):
    """Matrices that are no less than the exact second moments, and sizes that rounding multiplies.

    Attributes:
        at_head: ``W_Vᵀ N_l(s) W_V`` of non-empty completions for every head: ``[heads, n_ctx,
            d_value, d_value]``.
        at_mlp: ``N`` that the MLP of each layer reads at one position: ``[n_layers, d_model,
            d_model]``.
        at_end: ``N_L`` at that position: ``[d_model, d_model]``.
        start: What each head reads of paths past no head: ``[heads, n_ctx, d_value]``.
        start_size: Sizes of the sums that made it, which rounding multiplies.
        in_W_V: ``r`` of what heads read: ``[heads, n_ctx, d_value]``.
        in_W_O: Of what they write: ``[heads, n_ctx, d_model]``.
        in_X: Of what passes an MLP: ``[n_layers, n_ctx, d_model]``.
    """

    at_head: np.ndarray
    at_mlp: np.ndarray
    at_end: np.ndarray
    start: np.ndarray
    start_size: np.ndarray
    in_W_V: np.ndarray
    in_W_O: np.ndarray
    in_X: np.ndarray


class DressedBounds(NamedTuple):
    """Bounds on paths in the dressed stream to one position, along any direction."""

    model: DressedModel
    moments: DressedMoments
    position: int
    frozen: FrozenModel


@overflow_is_refused
def dressed_bounds(frozen: FrozenModel, position: SupportsIndex) -> DressedBounds:
    """Bounds for `ledger.position_ledger` along several directions: nearly all of its time.

    Source: ours; docs/methods/path-ledger.md.
    """
    check_host("dressed_bounds", frozen)
    position = counted_index("position", position, frozen.tokens.shape[0])
    with one_thread():
        model = dressed_model(frozen)
    return DressedBounds(model, dressed_moments(model, position), position, frozen)


def dressed_moments(model: DressedModel, position: int) -> DressedMoments:
    """Moments over paths of heads and positions, layer by layer; positions share the cores.

    ``N ← Xᵀ (N + Σ_h W_Oᵀ (Σ_s A_ts² (v vᵀ + W_Vᵀ N W_V)) W_O) X``, v the starts at head h and X
    the MLP of the layer at each position; in the parallel form X passes the first N only.

    Source: ours; docs/methods/path-ledger.md.
    """
    with one_thread(), ThreadPoolExecutor(n_cores()) as threads:
        return _moments(model, position, threads)


@overflow_is_refused
def _moments(model: DressedModel, position: int, threads: ThreadPoolExecutor) -> DressedMoments:
    """`dressed_moments`, its products on some threads."""
    n_heads, n_ctx, _ = model.A.shape
    d_model, d_value = model.W_V.shape[1:]
    n_layers = len(model.factors)
    at_head = np.zeros((n_heads, n_ctx, d_value, d_value))
    start, start_size, in_W_V = np.zeros((3, n_heads, n_ctx, d_value))
    in_W_O = np.zeros((n_heads, n_ctx, d_model))
    in_X = np.zeros((n_layers, n_ctx, d_model))
    N = np.zeros((n_ctx, d_model, d_model))
    at_mlp = np.zeros((n_layers, d_model, d_model))
    for layer in shown(range(n_layers), "bounds of paths"):
        # After the last layer only one position is asked for.
        here = slice(None) if layer < n_layers - 1 else slice(position, position + 1)
        positions, heads = range(n_ctx)[here], np.flatnonzero(model.layer == layer)
        sizes, inner = _sizes(N), []
        for head in heads:
            W_V, W_O, same = model.W_V[head], model.W_O[head], model.values_of[head]
            if same == head:
                in_W_V[head] = sizes @ np.abs(W_V)
                seen = threads.map(partial(_sandwich, W=W_V), N, in_W_V[head])
                at_head[head] = list(seen) if layer else 0.0
                start[head] = model.direct[layer] @ W_V
                start_size[head] = np.abs(model.direct[layer]) @ np.abs(W_V)
            else:
                for array in (in_W_V, at_head, start, start_size):
                    array[head] = array[same]
            # Of v + e, with e made on the way and in this product.
            own = (1 + _APART) * _outer(start[head])
            price = 2 * (1 + 1 / _APART)
            own += price * CARRIED**2 * at_head[head]
            _add(own, price * d_value * (lost(d_model) * start_size[head]) ** 2)
            P = model.A[head][here] ** 2
            J = (P @ (own + at_head[head]).reshape(n_ctx, -1)).reshape(-1, d_value, d_value)
            J = _mirrored(J) + _outer(model.b_V[head][here])
            _add(J, d_value * lost(n_ctx + 8) * _sizes(J) ** 2 + FLOOR)
            in_W_O[head, here] = _sizes(J) @ np.abs(W_O)
            inner.append(J)
        written = np.stack(
            list(threads.map(partial(_written, model.W_O[heads]), np.stack(inner, axis=1)))
        )
        count = d_value * (1 + len(heads)) + 8
        raised = (in_W_O[heads][:, here] ** 2).sum(axis=0)
        _add(written, d_model * lost(count) * raised + FLOOR)
        before = N[here] + written if model.after_heads else N[here]
        at_mlp[layer] = before[position if layer < n_layers - 1 else 0]
        in_X[layer, here] = model.spread(layer, _sizes(before), here)
        past = partial(_past_mlp, model, layer)
        N = np.stack(list(threads.map(past, before, in_X[layer, here], positions)))
        if not model.after_heads:
            N += written
        _add(N, d_model * lost(0) * _sizes(N) ** 2)
        # Errors of all layers in one sum: its square is at most their number times that of each.
        own_error = product_loss(model) * model.direct_size[layer, here] + FLOOR
        _add(N, n_layers * d_model * (own_error / CARRIED) ** 2)
        require_finite("squares of what paths bring", N)
    require_finite("squares of what paths bring", at_head, at_mlp, start_size, in_W_O, in_X)
    at_end = N[0 if n_layers else position]
    return DressedMoments(at_head, at_mlp, at_end, start, start_size, in_W_V, in_W_O, in_X)


def _sizes(N: np.ndarray) -> np.ndarray:
    """``n`` with ``|N_ij| <= n_i n_j``: roots of the diagonal of positive matrices."""
    return np.sqrt(np.maximum(np.einsum("...ii->...i", N), 0))


def _add(N: np.ndarray, diagonal: np.ndarray) -> None:
    """Add to the diagonals of matrices, in place."""
    d = N.shape[-1]
    N.reshape(*N.shape[:-2], d * d)[..., :: d + 1] += diagonal


@overflow_is_refused
def _sandwich(N: np.ndarray, r: np.ndarray, W: np.ndarray) -> np.ndarray:
    """No less than ``Wᵀ N W``, r being ``n |W|``."""
    d_before, d_after = W.shape
    found = _symmetric(W, N @ W)
    _add(found, d_after * lost(2 * d_before + 8) * r**2)
    return found


@overflow_is_refused
def _written(W_O: np.ndarray, J: np.ndarray) -> np.ndarray:
    """``Σ_h W_Oᵀ J W_O`` at one position, not raised."""
    return _symmetric(np.concatenate(W_O), np.concatenate(J @ W_O))


@overflow_is_refused
def _past_mlp(
    model: DressedModel, layer: int, N: np.ndarray, r: np.ndarray, position: int
) -> np.ndarray:
    """No less than ``Xᵀ N X`` at one position with the exact X, r being ``n (I + Y)``."""
    X = model.map_at(layer, position)
    found = _symmetric(X, N @ X)
    _add(found, X.shape[-1] * 4 * product_loss(model) * r**2 + FLOOR)
    return found


def _symmetric(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``leftᵀ right``, whose exact value is symmetric: two thirds of the product."""
    d = left.shape[1]
    found, blocks = np.empty((d, d)), range(0, d + _BLOCK, _BLOCK)
    for start, stop in itertools.pairwise(blocks):
        found[:stop, start:stop] = left[:, :stop].T @ right[:, start:stop]
    return _mirrored(found)


def _mirrored(N: np.ndarray) -> np.ndarray:
    """The upper halves of matrices on both sides."""
    return np.triu(N) + np.swapaxes(np.triu(N, 1), -1, -2)


def _outer(v: np.ndarray) -> np.ndarray:
    """``vᵀ v`` at each position."""
    return v[:, :, None] * v[:, None, :]
