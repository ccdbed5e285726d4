"""Numbers of ε-orthogonal directions by three methods, in each number of dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import member_keys
from circuitax.projection.coherence import coherence_by_count
from circuitax.projection.laws import random_capacity
from circuitax.projection.packing_bounds import capacity_bound
from circuitax.projection.packings import greedy_packing, optimised_packing, prune

FRACTIONS = (0.4, 0.55, 0.7, 0.85)  # sizes that the optimiser tries, in units of the upper bound


def random_counts(
    key: Key[Array, ""], dims: tuple[int, ...], epsilon: float, n_trials: int
) -> Int[Array, "n_dims {n_trials}"]:
    """Length of a sequence of random directions before its first pair that overlaps more than ε."""
    _check(dims, epsilon, n_trials=n_trials)
    capacity = 3 * int(random_capacity(dims[-1], epsilon)) + 8

    def one(key: Key[Array, ""], dim: Int[Array, ""]) -> Int[Array, ""]:
        x = jax.random.normal(key, (capacity, dims[-1]))
        x = jnp.where((jnp.arange(dims[-1]) < dim)[None, :], x, 0)
        return (coherence_by_count(x) <= epsilon).sum()

    every = jax.jit(lambda *args: jax.lax.map(lambda at: one(*at), args))
    repeated = np.repeat(dims, n_trials)
    found = every(member_keys(key, len(repeated)), jnp.asarray(repeated))
    return found.reshape(len(dims), n_trials)


def greedy_counts(
    key: Key[Array, ""],
    dims: tuple[int, ...],
    epsilon: float,
    n_seeds: int,
    n_candidates: int,
    *,
    capacity: int = 500,
) -> Int[Array, "n_dims {n_seeds}"]:
    """Sizes of greedy packings (`packings.greedy_packing`), at most ``capacity``."""
    _check(dims, epsilon, n_seeds=n_seeds, n_candidates=n_candidates, capacity=capacity)

    def one(key: Key[Array, ""], n_dims: Int[Array, ""]) -> Int[Array, ""]:
        return greedy_packing(
            key, epsilon, dim=dims[-1], capacity=capacity, n_candidates=n_candidates, n_dims=n_dims
        ).active.sum()

    every = jax.jit(lambda *args: jax.lax.map(lambda at: one(*at), args))
    repeated = np.repeat(dims, n_seeds)
    found = every(member_keys(key, len(repeated)), jnp.asarray(repeated))
    return found.reshape(len(dims), n_seeds)


def optimised_counts(
    key: Key[Array, ""], dims: tuple[int, ...], epsilon: float, n_seeds: int, n_steps: int
) -> Int[Array, "n_dims {n_seeds}"]:
    """The largest set left by `packings.prune` of packings optimised at several sizes.

    Sizes tried are `FRACTIONS` of `packing_bounds.capacity_bound`, each from its own start. Where
    all starts fail, the set of the next smaller dimension with the new axes beside it is larger,
    and counts: ``N(d) ≥ N(d') + d - d'``, from d axes on.
    """
    _check(dims, epsilon, n_seeds=n_seeds, n_steps=n_steps)
    bounds = [capacity_bound(d, epsilon) for d in dims]
    if not np.isfinite(bounds[-1]):
        raise ValueError(f"dims={dims} must have finite bounds at epsilon={epsilon}: d < 3/ε² − 2")

    def one(key: Key[Array, ""], n: Int[Array, ""], n_dims: Int[Array, ""]) -> Int[Array, ""]:
        found = optimised_packing(
            key, n, dim=dims[-1], capacity=int(bounds[-1]), n_steps=n_steps, n_dims=n_dims
        )
        return prune(found, epsilon).active.sum()

    each = len(FRACTIONS) * n_seeds
    sizes = [max(2, int(f * b)) for b in bounds for _ in range(n_seeds) for f in FRACTIONS]
    every = jax.jit(lambda *args: jax.lax.map(lambda at: one(*at), args))
    keys = member_keys(key, len(sizes))
    found = every(keys, jnp.asarray(sizes), jnp.asarray(np.repeat(dims, each)))
    best = found.reshape(len(dims), n_seeds, len(FRACTIONS)).max(-1)
    # N(d) - d never falls: axes are orthogonal to all that lies in the dimensions before them.
    beyond_axes = best - jnp.asarray(dims)[:, None]
    return jnp.asarray(dims)[:, None] + jax.lax.cummax(jnp.maximum(beyond_axes, 0))


def _check(dims: tuple[int, ...], epsilon: float, **counts: int) -> None:
    if not dims or dims[0] < 2 or not (np.diff(dims) > 0).all():
        raise ValueError(f"dims={dims} must increase, from at least 2")
    check_range("epsilon", epsilon, "(0, 1)")
    for name, count in counts.items():
        check_range(name, count, "[1, inf)")
