"""A frozen model with dressed stream on the host, MLPs as the factors of their maps.

The ledger's search in the dressed stream uses it (`dressed_moments`, `dressed_steps`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from circuitax.circuits.ledger.host_model import host_model
from circuitax.circuits.ledger.rounding import lost, require_finite
from circuitax.circuits.paths.frozen import FrozenMLPs, FrozenModel


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
        _values_of(host.W_V, host.layer),
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


def _values_of(W_V: np.ndarray, layer: np.ndarray) -> np.ndarray:
    """For each head the first one of its layer with the same W_V; grouped queries share it."""
    first = np.arange(len(layer))
    for head in range(1, len(layer)):
        before = first[head - 1]
        if layer[before] == layer[head] and np.array_equal(W_V[before], W_V[head]):
            first[head] = before
    return first


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
