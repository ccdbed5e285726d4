"""The exact optimum of a toy model: BFGS on the exact loss from many starts, cell by cell.

A cell is one setting of density and importance. The restarts of all cells form one batch. A first
search uses a short cosine series; a second one polishes the best few restarts of each cell with a
long series. Call it in float64 (``jax.enable_x64``): in float32 the line search stalls at relative
differences of 1e-6.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.loss.batches import batch_size
from circuitax.superposition.loss.exact_losses import N_TERMS, losses_with_errors
from circuitax.superposition.loss.padding import Padding
from circuitax.superposition.optimum.descent import descend

# Cosine terms of the search (errors near 1e-7, far below the gaps between solution classes) and of
# the polish (near 1e-9), by number of features, a multiple of the former: one compiled program
# serves both. Up to two features the closed form is exact.
TERMS = {1: (0, 0), 2: (0, 0), 3: (16, 16), 4: (24, 96)}
MANY_FEATURES_TERMS = (32, 128)
# Numbers drawn for random starts come in powers of two, at least this one: few programs.
LEAST_DRAWN = 256


class Optimum(NamedTuple):
    """The best solution of every cell, with all its restarts; losses are summed over features."""

    weights: TiedWeights  # [cell, ...]
    loss: Float[Array, " cell"]
    error: Float[Array, " cell"]
    """Truncation error of the loss, as in `ExpectedLoss`."""
    gradient: Float[Array, " cell"]
    """Largest entry of the polished loss's gradient at the optimum."""
    n_reached: Int[Array, " cell"]
    """Restarts whose loss came within ``tolerance`` of the best."""
    restart_weights: TiedWeights  # [cell, restart, ...]
    restart_loss: Float[Array, "cell restart"]


def find_optimum(
    key: Key[Array, ""],
    density: Float[Array, "cell n_features"],
    importance: Float[Array, "cell n_features"],
    *,
    n_hidden: int,
    n_restarts: int,
    starts: TiedWeights | None = None,
    init_scale: float = 1.0,
    n_polished: int = 2,
    tolerance: float = 1e-3,
) -> Optimum:
    """Minimise the expected sum loss over W and b in every cell, from random and given starts.

    Args:
        key: Random starts; the same starts serve every cell, so that cells differ by setting only.
        density: P(feature is on), in [0, 1].
        importance: I_i, not negative.
        n_hidden: Hidden dimensions, at least 1.
        n_restarts: Random starts of each cell; ``W ~ N(0, init_scale^2 / n_hidden)``, ``b = 0``.
        starts: Further starts, with a leading axis, such as `crossover.digon_starts`.
        init_scale: Expected norm of a feature at the start, nearly; positive.
        n_polished: Restarts of each cell that are polished, best first.
        tolerance: Relative distance to the best loss that counts as reaching it, not negative.

    Raises:
        ValueError: If an argument is out of range, the shapes do not fit, or there is no start.

    Source: toy-models paper, "The Geometry of Superposition" (best of several fits).
    """
    n_cells, n_features = density.shape
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    for name, size, least in (
        ("n_hidden", n_hidden, 1),
        ("n_restarts", n_restarts, 0),
        ("n_polished", n_polished, 1),
    ):
        check_range(name, size, f"[{least}, inf)")
    check_range("init_scale", init_scale, "(0, inf)")
    check_range("tolerance", tolerance, "[0, inf)")
    if importance.shape != density.shape:
        raise ValueError(f"importance has shape {importance.shape}, density has {density.shape}")
    if starts is not None and starts.W.shape[1:] != (n_hidden, n_features):
        raise ValueError(
            f"starts.W has shape {starts.W.shape}, must have (start, {n_hidden}, {n_features})"
        )
    first = _starts(key, n_hidden, n_features, n_restarts, starts, init_scale, density.dtype)
    n_starts = first.W.shape[0]
    if n_starts == 0:
        raise ValueError("n_restarts=0 must be at least 1 when no starts are given")

    search_terms, polish_terms = TERMS.get(n_features, MANY_FEATURES_TERMS)
    n_polished = min(n_polished, n_starts)
    padding = Padding(n_hidden, n_features)
    p, weight = padding.fill(density), padding.fill(importance)
    batch = batch_size(n_cells * n_polished)

    def minima(
        x: np.ndarray, n_terms: int, tolerances: tuple[float, float]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cells, count, d = x.shape
        found = descend(
            x.reshape(cells * count, d),
            *(np.repeat(array, count, axis=0) for array in (p, weight)),
            rows=padding.rows,
            batch=batch,
            n_terms=n_terms,
            block=search_terms,
            tolerances=tolerances,
        )
        shape = (cells, count)
        return found.x.reshape(x.shape), found.loss.reshape(shape), found.gradient.reshape(shape)

    x = np.repeat(padding.pack(first)[None], n_cells, axis=0)
    x, loss, _ = minima(x, search_terms, (1e-5, 1e-6))

    rows = np.arange(n_cells)[:, None]
    order = np.argsort(loss, axis=1)[:, :n_polished]
    y, value, gradient = minima(x[rows, order], polish_terms, (1e-9, 1e-13))
    x[rows, order], loss[rows, order] = y, value

    best = np.arange(n_cells), np.argmin(value, axis=1)
    weights = padding.unpack(y[best])
    n_terms = N_TERMS if polish_terms else 0
    final = losses_with_errors(weights, density, importance, n_terms=n_terms)
    reached = loss <= (1 + tolerance) * np.asarray(final.value)[:, None]
    return Optimum(
        weights=weights,
        loss=jnp.asarray(final.value),
        error=jnp.asarray(final.error),
        gradient=jnp.asarray(gradient[best]),
        n_reached=jnp.asarray(np.sum(reached, axis=1)),
        restart_weights=padding.unpack(x),
        restart_loss=jnp.asarray(loss),
    )


def _starts(
    key: Key[Array, ""],
    n_hidden: int,
    n_features: int,
    n_restarts: int,
    starts: TiedWeights | None,
    init_scale: float,
    dtype: jnp.dtype,
) -> TiedWeights:
    """Random starts, then the given ones."""
    shape = (n_restarts, n_hidden, n_features)
    count = n_restarts * n_hidden * n_features
    # Number i of a draw is the same however many follow it.
    drawn = max(LEAST_DRAWN, 1 << (count - 1).bit_length())
    W = np.asarray(jax.random.normal(derive(key, "starts"), (drawn,), dtype))[:count]
    W, b = init_scale / n_hidden**0.5 * W.reshape(shape), np.zeros((n_restarts, n_features), dtype)
    if starts is not None:
        W = np.concatenate([W, np.asarray(starts.W, dtype)])
        b = np.concatenate([b, np.asarray(starts.b, dtype)])
    return TiedWeights(jax.device_put(W), jax.device_put(b))
