"""A frozen model with dressed stream on the host: a dense map for each layer and position.

The ledger's search in the dressed stream uses it (`dressed_moments`, `dressed_steps`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from circuitax.circuits.ledger.rounding import lost, require_finite
from circuitax.circuits.ledger.second_moments import host_model
from circuitax.circuits.paths.frozen import FrozenMLPs, FrozenModel


class DressedModel(NamedTuple):
    """A frozen model in double precision, heads of all layers on one axis.

    Streams are divided by ``2^exponent``, as in `second_moments.HostModel`. ``X = I + M`` takes the
    stream past the MLP of a layer, and ``Y`` bounds what it is made of: computed entries of X are
    right to ``lost(n_products)`` times ``|X| + Y``, Y the product of absolute values.
    """

    A: np.ndarray  # [heads, dest, src]
    W_V: np.ndarray  # [heads, d_model, d_value]
    W_O: np.ndarray  # [heads, d_value, d_model]
    b_V: np.ndarray  # [heads, dest, d_value]
    layer: np.ndarray  # [heads]
    X: np.ndarray  # [n_layers, n_ctx, d_model, d_model]
    factors: list[list[np.ndarray]]  # of M, for each layer: see `_factors`; absolute values
    after_heads: bool  # whether an MLP reads what the heads of its layer wrote
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
        d_model = self.X.shape[-1]
        return d_model + sum(part.shape[-2] for part in self.factors[0][::2]) + 8

    def spread(self, layer: int, n: Float[np.ndarray, "some d_model"], at: slice) -> np.ndarray:
        """``n (|X| + Y)`` at some positions: sizes of the sums when a stream of sizes n passes.

        Args:
            layer: Which MLP.
            n: Sizes of coordinates, not negative.
            at: The positions of the rows.
        """
        return _past(self.X, self.factors, layer, n, at)


def dressed_model(frozen: FrozenModel) -> DressedModel:
    """Copy a frozen model with maps of its MLPs to the host.

    Args:
        frozen: The frozen model of one text, dressed.

    Raises:
        ValueError: If it is not dressed, or anything in it is not finite.
    """
    maps = frozen.maps
    if maps is None:
        raise ValueError("frozen.maps is None: the stream of this model is not dressed")
    for name, array in maps._asdict().items():
        if array is not None:
            require_finite(f"frozen.maps.{name}", np.asarray(array, np.float64))
    # Constants of MLPs are scaled like what MLPs write.
    host = host_model(frozen._replace(maps=None, mlps=maps.constant))
    n_layers, n_ctx = host.mlp_direct.shape[:2]
    factors = [_factors(maps, layer) for layer in range(n_layers)]
    X = np.stack([_dense(parts, n_ctx) for parts in factors])
    require_finite("frozen.maps, multiplied out,", X)
    factors = [[np.abs(part) for part in parts] for parts in factors]
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
            streams.append(_times(before + b_O[layer], X[layer]) + constant)
            whole = _times(whole + written + b_O[layer], X[layer]) + constant
        else:
            streams.append(_times(before, X[layer]) + b_O[layer] + constant)
            whole = _times(whole, X[layer]) + written + b_O[layer] + constant
        size = np.abs(before) + np.abs(b_O[layer])
        sizes.append(_past(X, factors, layer, size, slice(None)) + np.abs(constant) + size)
    direct = np.stack(streams)
    require_finite("streams of the frozen model", direct, whole)
    return DressedModel(
        host.A,
        host.W_V,
        host.W_O,
        host.b_V,
        host.layer,
        X,
        factors,
        after_heads,
        direct,
        np.stack(sizes) if sizes else np.zeros((0, *embedding.shape)),
        whole,
        host.exponent,
    )


def _factors(maps: FrozenMLPs, layer: int) -> list[np.ndarray]:
    """M of a layer as maps and the factors after them: ``W, f, W, f, …, W_out``.

    Both sides of a gated MLP that shares are one map, side by side, and one list of factors.
    """
    double = [np.asarray(x, np.float64) for x in (maps.W_in[layer], maps.factors[layer])]
    parts = [np.concatenate(list(x), axis=1) for x in double]
    W_out = np.asarray(maps.W_out[layer], np.float64)
    sides = len(double[0])
    if maps.W_hidden is None or maps.hidden_factors is None:
        return [*parts, np.concatenate([W_out] * sides)]
    first = True
    for W, f in zip(maps.W_hidden[layer], maps.hidden_factors[layer], strict=True):
        W = np.asarray(W, np.float64)
        parts += [np.concatenate([W] * sides) if first else W, np.asarray(f, np.float64)]
        first = False
    return [*parts, W_out]


def _dense(parts: list[np.ndarray], n_ctx: int) -> np.ndarray:
    """``I + M`` at each position, ``[n_ctx, d_model, d_model]``."""
    d_model = parts[0].shape[0]
    X = np.empty((n_ctx, d_model, d_model))
    for s in range(n_ctx):
        rows = parts[0] * parts[1][s]
        for W, f in zip(parts[2:-1:2], parts[3:-1:2], strict=True):
            rows = (rows @ W) * f[s]
        X[s] = rows @ parts[-1]
        X[s].flat[:: d_model + 1] += 1
    return X


def _past(
    X: np.ndarray, factors: list[list[np.ndarray]], layer: int, n: np.ndarray, at: slice
) -> np.ndarray:
    """``n (|X| + Y)``, Y by its factors; `DressedModel.spread`."""
    sizes, through = n, factors[layer]
    for W, f in zip(through[:-1:2], through[1:-1:2], strict=True):
        sizes = (sizes @ W) * f[at]
    return sizes @ through[-1] + _times(n, np.abs(X[layer, at]))


def _times(rows: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Each position's row through its own map."""
    return (rows[:, None, :] @ maps)[:, 0]


def product_loss(model: DressedModel) -> float:
    """Rounding of one passage past an MLP, relative to `DressedModel.spread`."""
    return lost(model.n_products)
