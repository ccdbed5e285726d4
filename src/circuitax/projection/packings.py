"""Sets of nearly orthogonal unit vectors: greedy by rejection, and optimised by gradient."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.keys import at_index, derive
from circuitax.projection.coherence import unit_rows


class Packing(NamedTuple):
    """Unit vectors as rows; only those that are ``active`` belong to the set."""

    vectors: Float[Array, "*batch capacity dim"]
    active: Bool[Array, "*batch capacity"]


@functools.partial(jax.jit, static_argnames=("dim", "capacity", "n_candidates", "batch"))
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

    Gilbert–Varshamov's argument: without a limit on candidates the set grows like
    ``1 / P(|⟨u, v⟩| > ε) ≈ exp(d ε² / 2)``, the square of what plain random directions reach.

    Args:
        key: Consumed.
        epsilon: Largest |⟨u, v⟩| allowed, in (0, 1).
        dim: d, at least 2.
        capacity: Most vectors kept; a set that fills it may be larger.
        n_candidates: Directions tried, rounded up to whole batches.
        batch: Directions tried at a time (the result depends on it only through their order).
        n_dims: Dimensions used, at most ``dim``; dynamic, so a sweep over d is a vmap.

    Raises:
        ValueError: If a size is below its least value.
    """
    _check(dim, capacity)
    if n_candidates < 1 or batch < 1:
        raise ValueError(f"n_candidates={n_candidates} and batch={batch} must be at least 1")

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


@functools.partial(jax.jit, static_argnames=("dim", "capacity", "n_steps", "signed"))
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
    """Directions that make their largest |⟨u, v⟩| small, by Adam on a smooth maximum.

    The loss is ``log Σ_{i<j} exp(β ⟨u_i, u_j⟩²) / β`` with β rising from 10 to 3000 geometrically
    while the step falls to zero; it is a bound on the squared coherence that tightens with β.
    ``signed`` takes ``⟨u_i, u_j⟩`` itself, so antipodal pairs are free (spherical codes). A local
    method: take the best of several keys, under vmap. ``n_vectors`` is dynamic, so sweeps
    over sizes are a vmap too.

    Args:
        key: Of the random start.
        n_vectors: N in [2, capacity].
        dim: d, at least 2.
        capacity: Rows held.
        n_steps: Steps of Adam.
        learning_rate: First step, in units of the sphere's radius.
        signed: Make the largest ``⟨u, v⟩`` small instead.
        n_dims: Dimensions used, at most ``dim``; dynamic. Unused ones start at 0 and stay there.

    Raises:
        ValueError: If ``dim`` is below 2 or ``capacity`` below 1.
    """
    _check(dim, capacity)
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


@jax.jit
def prune(packing: Packing, epsilon: float | Float[Array, ""]) -> Packing:
    """The packing without its worst vectors: most conflicts above ε first, until none is left.

    An optimiser that misses ε by a few pairs still shows a large set with coherence at most ε.
    """
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
    key: Key[Array, ""], count: int, dim: int, n_dims: int | Int[Array, ""] | None
) -> Float[Array, "{count} {dim}"]:
    x = jax.random.normal(key, (count, dim))
    used = jnp.arange(dim) < (dim if n_dims is None else n_dims)
    return unit_rows(jnp.where(used[None, :], x, 0))


def _check(dim: int, capacity: int) -> None:
    if dim < 2:
        raise ValueError(f"dim={dim} must be at least 2; on a line two directions coincide")
    if capacity < 1:
        raise ValueError(f"capacity={capacity} must be at least 1")
