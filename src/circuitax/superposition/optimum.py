"""The exact optimum of a toy model: BFGS on the exact loss from many starts, cell by cell.

A cell is one setting of density and importance. The restarts of all cells form one batch. A first
search uses a short cosine series; a second one polishes the best few restarts of each cell with a
long series. Call it in float64 (``jax.enable_x64``): in float32 the line search stalls at relative
differences of 1e-6.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.bfgs import BFGSState, begin, minimise
from circuitax.superposition.expected_loss import ExpectedLoss, expected_loss

# Cosine terms of the search (errors near 1e-7, far below the gaps between solution classes) and of
# the polish (near 1e-9), by number of features. Up to two features the closed form is exact; equal
# numbers share one compiled program.
TERMS = {1: (0, 0), 2: (0, 0), 3: (16, 16), 4: (24, 96)}
MANY_FEATURES_TERMS = (32, 128)
# Cosine terms of the loss that is reported.
FINAL_TERMS = 256
# Members advanced together, and the evaluations after which the unfinished are packed into fewer
# batches: half of the members need 60 evaluations, one in a hundred needs 200.
BATCH = 256
ROUNDS = (20, 40, 60, 80, 120, 160, 240, 400)


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
    x = _starts(key, n_hidden, n_features, n_restarts, starts, init_scale, density.dtype)
    n_starts = x.shape[0]
    if n_starts == 0:
        raise ValueError("n_restarts=0 must be at least 1 when no starts are given")

    search_terms, polish_terms = TERMS.get(n_features, MANY_FEATURES_TERMS)
    run = partial(_minimise_cells, density=density, importance=importance, n_hidden=n_hidden)
    x = jnp.broadcast_to(x[None], (n_cells, *x.shape))
    x, loss, _ = run(x, n_terms=search_terms, tolerances=(1e-5, 1e-6))

    cells = jnp.arange(n_cells)[:, None]
    order = jnp.argsort(loss, axis=1)[:, : min(n_polished, n_starts)]
    y, value, gradient = run(x[cells, order], n_terms=polish_terms, tolerances=(1e-9, 1e-13))
    x, loss = x.at[cells, order].set(y), loss.at[cells, order].set(value)

    best = jnp.argmin(value, axis=1)[:, None]
    weights = _unpack(jnp.take_along_axis(y, best[:, :, None], axis=1)[:, 0], n_hidden)
    final = _losses(weights, density, importance, n_terms=FINAL_TERMS if polish_terms else 0)
    return Optimum(
        weights=weights,
        loss=final.value,
        error=final.error,
        gradient=jnp.take_along_axis(gradient, best, axis=1)[:, 0],
        n_reached=jnp.sum(loss <= (1 + tolerance) * final.value[:, None], axis=1),
        restart_weights=_unpack(x, n_hidden),
        restart_loss=loss,
    )


def _minimise_cells(
    x: Float[Array, "cell restart d"],
    *,
    density: Float[Array, "cell n_features"],
    importance: Float[Array, "cell n_features"],
    n_hidden: int,
    n_terms: int,
    tolerances: tuple[float, float],
) -> tuple[
    Float[Array, "cell restart d"], Float[Array, "cell restart"], Float[Array, "cell restart"]
]:
    """Minimise from every start of every cell: points, losses, largest gradient entries.

    Host side. All batches have one size, padded by repetition, so that one program is compiled.
    """
    n_restarts = x.shape[1]
    states = jax.vmap(begin)(x.reshape(-1, x.shape[-1]))
    cell = np.repeat(np.arange(x.shape[0]), n_restarts)
    batch = min(BATCH, len(cell))
    for limit in ROUNDS:
        open_ = np.flatnonzero(~np.asarray(states.done))
        batches = [
            np.resize(open_[first : first + batch], batch) for first in range(0, len(open_), batch)
        ]
        # Dispatched before any result is used, batches run side by side on the host's cores.
        moved = [
            _minimise_batch(
                jax.tree.map(lambda leaf, at=at: leaf[at], states),
                density[cell[at]],
                importance[cell[at]],
                limit,
                tolerances,
                n_hidden=n_hidden,
                n_terms=n_terms,
            )
            for at in batches
        ]
        if batches:
            at = np.concatenate(batches)  # entries repeated as padding are equal
            states = jax.tree.map(
                lambda leaf, *new, at=at: leaf.at[at].set(jnp.concatenate(new)), states, *moved
            )
    scale = _loss_scale(density, importance)[:, None]
    shape = x.shape[:2]
    gradient = jnp.max(jnp.abs(states.gradient), axis=1).reshape(shape)
    return states.x.reshape(x.shape), states.value.reshape(shape) * scale, gradient * scale


@partial(jax.jit, static_argnames=("n_hidden", "n_terms"))
def _minimise_batch(
    states: BFGSState,
    density: Float[Array, "member n_features"],
    importance: Float[Array, "member n_features"],
    max_evaluations: int | Int[Array, ""],
    tolerances: tuple[float | Float[Array, ""], float | Float[Array, ""]],
    *,
    n_hidden: int,
    n_terms: int,
) -> BFGSState:
    """Advance a batch of states until all have settled or used up their evaluations."""

    def one(state: BFGSState, p: Array, weight: Array, scale: Array) -> BFGSState:
        def loss(y: Array) -> Array:
            return expected_loss(_unpack(y, n_hidden), p, weight, n_terms=n_terms).value / scale

        return minimise(
            loss,
            state,
            max_evaluations=max_evaluations,
            gradient_tolerance=tolerances[0],
            value_tolerance=tolerances[1],
        )

    return jax.vmap(one)(states, density, importance, _loss_scale(density, importance))


def _loss_scale(
    density: Float[Array, "cell n_features"], importance: Float[Array, "cell n_features"]
) -> Float[Array, " cell"]:
    """The loss of a model that does nothing, as unit: tolerances mean the same in every cell."""
    scale = jnp.sum(density * importance, axis=1) / 3
    return jnp.where(scale > 0, scale, 1)


@partial(jax.jit, static_argnames="n_terms")
def _losses(
    weights: TiedWeights,
    density: Float[Array, "cell n_features"],
    importance: Float[Array, "cell n_features"],
    *,
    n_terms: int,
) -> ExpectedLoss:
    return jax.vmap(partial(expected_loss, n_terms=n_terms))(weights, density, importance)


def _starts(
    key: Key[Array, ""],
    n_hidden: int,
    n_features: int,
    n_restarts: int,
    starts: TiedWeights | None,
    init_scale: float,
    dtype: jnp.dtype,
) -> Float[Array, "start d"]:
    """Random starts, then the given ones, each a flat vector of W and b."""
    shape = (n_restarts, n_hidden, n_features)
    W = init_scale / n_hidden**0.5 * jax.random.normal(derive(key, "starts"), shape, dtype)
    x = _pack(TiedWeights(W, jnp.zeros((n_restarts, n_features), dtype)))
    return x if starts is None else jnp.concatenate([x, _pack(starts).astype(dtype)], axis=0)


def _pack(weights: TiedWeights) -> Float[Array, "*batch d"]:
    *batch, n_hidden, n_features = weights.W.shape  # -1 would fail for no start at all
    flat = weights.W.reshape(*batch, n_hidden * n_features)
    return jnp.concatenate([flat, weights.b], axis=-1)


def _unpack(x: Float[Array, "*batch d"], n_hidden: int) -> TiedWeights:
    n_features = x.shape[-1] // (n_hidden + 1)
    W = x[..., : n_hidden * n_features].reshape(*x.shape[:-1], n_hidden, n_features)
    return TiedWeights(W, x[..., n_hidden * n_features :])
