"""Sets of nearly orthogonal unit vectors, by greedy rejection or by gradient descent."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive
from circuitax.projection.coherence import unit_rows


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
    _check(dim, capacity, n_dims)
    check_range("epsilon", epsilon, "(0, 1)")
    check_range("n_candidates", n_candidates, "[1, inf)")
    check_range("batch", batch, "[1, inf)")
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
    _check(dim, capacity, n_dims)
    check_range("n_vectors", n_vectors, f"[2, {capacity}]")
    check_range("n_steps", n_steps, "[1, inf)")
    check_range("learning_rate", learning_rate, "(0, inf)")
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
    check_range("epsilon", epsilon, "(0, 1)")
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


def packing_coherence(packing: Packing) -> Float[Array, "*batch"]:
    """``max |⟨u, v⟩|`` over distinct active vectors, 0 for fewer than two."""
    u = unit_rows(packing.vectors)
    g = jnp.abs(u @ jnp.swapaxes(u, -1, -2))
    both = packing.active[..., :, None] & packing.active[..., None, :]
    return jnp.where(jnp.triu(both, 1), g, 0).max((-1, -2))


def _directions(
    key: Key[Array, ""], count: int, dim: int, n_dims: int | Int[Array, ""]
) -> Float[Array, "{count} {dim}"]:
    x = jax.random.normal(key, (count, dim))
    used = jnp.arange(dim) < n_dims
    return unit_rows(jnp.where(used[None, :], x, 0))


def _check(dim: int, capacity: int, n_dims: int | Int[Array, ""] | None) -> None:
    check_range("dim", dim, "[2, inf)")  # on a line two directions coincide
    check_range("capacity", capacity, "[1, inf)")
    if n_dims is not None:
        check_range("n_dims", n_dims, f"[2, {dim}]")
