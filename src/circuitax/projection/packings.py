"""Nearly orthogonal directions: how many there are, bounds on them, and ways to find them."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key
from numpy.typing import NDArray

from circuitax.kernel.keys import at_index, derive, member_keys
from circuitax.projection.coherence import coherence_by_count, unit_rows
from circuitax.projection.laws import check_epsilon, random_capacity

Values = NDArray[np.float64]


def welch_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``√((N − d) / (d (N − 1)))``, the least coherence for N ≥ d; 0 for N ≤ d.

    Equiangular tight frames, which need ``N ≤ d (d + 1)/2``, meet it exactly. The mean square
    overlap obeys the same bound for every N.

    Source: Welch 1974.
    """
    n, d = _sizes(n_vectors, dim)
    return np.asarray(np.sqrt(np.maximum(n - d, 0) / (d * np.maximum(n - 1, 1))))


def orthoplex_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``1/√d`` for ``N > d (d + 1)/2``, else 0.

    Source: Conway, Hardin and Sloane 1996 (after Rankin 1955), real case.
    """
    n, d = _sizes(n_vectors, dim)
    return np.asarray(np.where(n > d * (d + 1) / 2, 1 / np.sqrt(d), 0.0))


def levenshtein_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """``√((3N − d² − 2d) / ((d + 2)(N − d)))`` for ``N > d (d + 1)/2``, else 0.

    Source: Levenshtein 1982, as in Haas, Hammen and Mixon 2017, real case.
    """
    n, d = _sizes(n_vectors, dim)
    applies = n > d * (d + 1) / 2
    square = (3 * n - d * d - 2 * d) / ((d + 2) * np.where(applies, n - d, 1))
    return np.asarray(np.where(applies, np.sqrt(np.maximum(square, 0)), 0.0))


def coherence_bound(n_vectors: ArrayLike, dim: ArrayLike) -> Values:
    """The largest of the Welch, orthoplex and Levenshtein bounds."""
    bounds = [f(n_vectors, dim) for f in (welch_bound, orthoplex_bound, levenshtein_bound)]
    return np.asarray(np.maximum.reduce(bounds))


def capacity_bound(dim: int, epsilon: float) -> float:
    """The largest N that `coherence_bound` allows at coherence ε; infinite if it has no bound.

    Welch gives ``N ≤ d (1 − ε²) / (1 − d ε²)`` for ``ε² < 1/d``, capped by orthoplex at
    ``d (d + 1)/2``; Levenshtein ``N ≤ d (d + 2)(1 − ε²) / (3 − (d + 2) ε²)`` for
    ``1/d ≤ ε² < 3/(d + 2)``. Beyond that only the exponential bound `kabatiansky_levenshtein`
    is left.

    Source: Welch 1974; Levenshtein 1982.
    """
    check_epsilon(epsilon)
    _sizes(1, dim)
    square = epsilon**2
    if square < 1 / dim:
        welch = dim * (1 - square) / (1 - dim * square)
        return min(welch, dim * (dim + 1) / 2)
    if square < 3 / (dim + 2):
        return dim * (dim + 2) * (1 - square) / (3 - (dim + 2) * square)
    return math.inf


def kabatiansky_levenshtein(epsilon: ArrayLike) -> Values:
    """Asymptotic upper bound on ``ln N / d`` for directions with |⟨u, v⟩| ≤ ε as d grows.

    With ``s = √(1 − ε²)``: ``(1+s)/(2s) ln((1+s)/(2s)) − (1−s)/(2s) ln((1−s)/(2s))``, about
    ``(ε²/2) ln(2e^{1/2}/ε)`` for small ε. A reference exponent, not a bound at finite d.

    Source: Kabatiansky and Levenshtein 1978, for spherical codes with angle arccos ε; a set of
        directions together with its negatives is such a code.
    """
    s = np.sqrt(1 - check_epsilon(epsilon) ** 2)
    plus, minus = (1 + s) / (2 * s), (1 - s) / (2 * s)
    return np.asarray(plus * np.log(plus) - minus * np.log(minus))


def _sizes(n_vectors: ArrayLike, dim: ArrayLike) -> tuple[Values, Values]:
    return np.asarray(n_vectors, float), np.asarray(dim, float)


class Packing(NamedTuple):
    """Unit vectors as rows; only those that are ``active`` belong to the set."""

    vectors: Float[Array, "*batch capacity dim"]
    active: Bool[Array, "*batch capacity"]


def greedy_packing(
    key: Key[Array, ""],
    epsilon: float | Float[Array, ""],
    *,
    dim: int,
    capacity: int,
    n_candidates: int,
    batch: int = 64,
    n_dims: int | Int[Array, ""] | None = None,
) -> Packing:
    """Random sequential packing: a random direction joins if it overlaps no member above ε.

    By Gilbert and Varshamov's argument the set grows, without a limit on candidates, like
    ``1 / P(|⟨u, v⟩| > ε) ≈ exp(d ε² / 2)``, the square of what plain random directions reach.
    """
    return _greedy(
        key, epsilon, dim if n_dims is None else n_dims, dim, capacity, n_candidates, batch
    )


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6))
def _greedy(
    key: Key[Array, ""],
    epsilon: float | Float[Array, ""],
    n_dims: int | Int[Array, ""],
    dim: int,
    capacity: int,
    n_candidates: int,
    batch: int,
) -> Packing:
    def one(
        state: tuple[Packing, Int[Array, ""]], item: tuple[Float[Array, " d"], Bool[Array, ""]]
    ) -> tuple[tuple[Packing, Int[Array, ""]], None]:
        # Overlaps with the set as it was before the batch are known; those within it are not.
        (packing, size), (u, fits) = state, item
        recent = jax.lax.dynamic_slice_in_dim(packing.vectors, jnp.maximum(size - batch, 0), batch)
        fits = fits & (jnp.abs(recent @ u).max() <= epsilon) & (size < capacity)
        vectors = jax.lax.dynamic_update_index_in_dim(
            packing.vectors, jnp.where(fits, u, packing.vectors[size]), size, 0
        )
        return (Packing(vectors, packing.active.at[size].set(fits)), size + fits), None

    def one_batch(
        state: tuple[Packing, Int[Array, ""]], index: Int[Array, ""]
    ) -> tuple[tuple[Packing, Int[Array, ""]], None]:
        u = _directions(at_index(key, index), batch, dim, n_dims)
        fits = jnp.abs(u @ state[0].vectors.T).max(1) <= epsilon
        return jax.lax.scan(one, state, (u, fits))

    # Room for a last write, and for the slice of recent members.
    room = max(capacity, batch) + 1
    empty = Packing(jnp.zeros((room, dim)), jnp.zeros(room, bool))
    n_batches = -(-n_candidates // batch)
    (packing, size), _ = jax.lax.scan(one_batch, (empty, jnp.zeros((), int)), jnp.arange(n_batches))
    return Packing(packing.vectors[:capacity], jnp.arange(capacity) < size)


def optimised_packing(
    key: Key[Array, ""],
    n_vectors: int | Int[Array, ""],
    *,
    dim: int,
    capacity: int,
    n_steps: int = 2000,
    learning_rate: float = 0.03,
    signed: bool = False,
    n_dims: int | Int[Array, ""] | None = None,
) -> Packing:
    """Directions of small largest |⟨u, v⟩|, by Adam on a smooth maximum.

    The loss is ``log Σ_{i<j} exp(β ⟨u_i, u_j⟩²) / β`` with β rising from 10 to 3000 geometrically
    while the step falls to zero; it is an upper bound on the squared coherence that tightens with
    β. ``signed`` takes ``⟨u_i, u_j⟩`` itself, so that antipodal pairs cost nothing (spherical
    codes). The method is local, so take the best of several keys, under ``jax.vmap``.
    """
    used = dim if n_dims is None else n_dims
    return _optimised(key, n_vectors, used, learning_rate, dim, capacity, n_steps, signed)


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _optimised(
    key: Key[Array, ""],
    n_vectors: int | Int[Array, ""],
    n_dims: int | Int[Array, ""],
    learning_rate: float | Float[Array, ""],
    dim: int,
    capacity: int,
    n_steps: int,
    signed: bool,
) -> Packing:
    start = _directions(derive(key, "start"), capacity, dim, n_dims)
    active = jnp.arange(capacity) < n_vectors
    pairs = jnp.triu(active[:, None] & active[None, :], 1)
    optimiser = optax.adam(optax.cosine_decay_schedule(learning_rate, n_steps))

    def loss(x: Float[Array, "n d"], sharpness: Float[Array, ""]) -> Float[Array, ""]:
        u = unit_rows(x)
        overlaps = u @ u.T if signed else (u @ u.T) ** 2
        return jax.nn.logsumexp(sharpness * jnp.where(pairs, overlaps, -jnp.inf)) / sharpness

    def step(
        state: tuple[Float[Array, "n d"], optax.OptState], progress: Float[Array, ""]
    ) -> tuple[tuple[Float[Array, "n d"], optax.OptState], None]:
        x, opt_state = state
        sharpness = 10 * 300**progress
        updates, opt_state = optimiser.update(jax.grad(loss)(x, sharpness), opt_state)
        # Back to the sphere: Adam's steps are tangential only on average.
        return (unit_rows(jnp.asarray(optax.apply_updates(x, updates))), opt_state), None

    progress = jnp.linspace(0, 1, n_steps)
    (x, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), progress)
    return Packing(jnp.where(active[:, None], x, 0), active)


def prune(packing: Packing, epsilon: float | Float[Array, ""]) -> Packing:
    """The packing without its worst vectors: no remaining overlap exceeds ε."""
    return _prune(packing, epsilon)


@jax.jit
def _prune(packing: Packing, epsilon: float | Float[Array, ""]) -> Packing:
    u = unit_rows(packing.vectors)
    conflicts = (jnp.abs(u @ u.T) > epsilon) & ~jnp.eye(u.shape[0], dtype=bool)

    def degree(active: Bool[Array, " n"]) -> Int[Array, " n"]:
        return (conflicts & active[None, :] & active[:, None]).sum(1)

    def drop(active: Bool[Array, " n"]) -> Bool[Array, " n"]:
        return active.at[degree(active).argmax()].set(False)

    active = jax.lax.while_loop(lambda a: degree(a).max() > 0, drop, packing.active)
    return Packing(jnp.where(active[:, None], packing.vectors, 0), active)


def _directions(
    key: Key[Array, ""], count: int, dim: int, n_dims: int | Int[Array, ""]
) -> Float[Array, "{count} {dim}"]:
    x = jax.random.normal(key, (count, dim))
    used = jnp.arange(dim) < n_dims
    return unit_rows(jnp.where(used[None, :], x, 0))


FRACTIONS = (0.4, 0.55, 0.7, 0.85)  # sizes that the optimiser tries, in units of the upper bound


def random_counts(
    key: Key[Array, ""], dims: tuple[int, ...], epsilon: float, n_trials: int
) -> Int[Array, "n_dims {n_trials}"]:
    """Length of a sequence of random directions before its first pair that overlaps more than ε."""
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

    Sizes tried are `FRACTIONS` of `capacity_bound`, each from its own start. Where
    all starts fail, the set of the next smaller dimension with the new axes beside it is larger,
    and counts: ``N(d) ≥ N(d') + d - d'``, from d axes on.
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
    best = found.reshape(len(dims), n_seeds, len(FRACTIONS)).max(-1)
    # N(d) - d never falls: axes are orthogonal to all that lies in the dimensions before them.
    beyond_axes = best - jnp.asarray(dims)[:, None]
    return jnp.asarray(dims)[:, None] + jax.lax.cummax(jnp.maximum(beyond_axes, 0))
