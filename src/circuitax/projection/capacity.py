"""How many ε-orthogonal directions three methods place, dimension by dimension."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from circuitax.kernel.keys import member_keys
from circuitax.projection.coherence import coherence_by_count
from circuitax.projection.laws import random_capacity
from circuitax.projection.packing_bounds import capacity_bound
from circuitax.projection.packings import greedy_packing, optimised_packing, prune

FRACTIONS = (0.4, 0.55, 0.7, 0.85)  # sizes that the optimiser tries, in units of the upper bound


def random_counts(
    key: Key[Array, ""], dims: tuple[int, ...], epsilon: float, n_trials: int
) -> Int[Array, "n_dims {n_trials}"]:
    """Length of a sequence of random directions before its first pair beyond ε.

    A sequence is cut at three times the median of the largest dimension, which under one in five
    hundred exceeds; `laws.random_capacity` is the median that the birthday law gives.

    Args:
        key: Consumed.
        dims: d, increasing, each at least 2.
        epsilon: Largest overlap allowed, in (0, 1).
        n_trials: Independent sequences a dimension.
    """
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

    Sizes tried are `FRACTIONS` of `packing_bounds.capacity_bound`, each from its own start.

    Args:
        key: Consumed.
        dims: d, increasing, each at least 2 and with a finite bound at ε.
        epsilon: Largest overlap allowed, in (0, 1).
        n_seeds: Independent repetitions.
        n_steps: Steps of the optimiser.

    Raises:
        ValueError: If the bound of the largest dimension is infinite.
    """
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
    return found.reshape(len(dims), n_seeds, len(FRACTIONS)).max(-1)
