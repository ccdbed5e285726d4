"""Many toy models moved downhill on their exact loss, in batches that share one program."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.superposition.loss.batches import OPTIONS, batches
from circuitax.superposition.loss.expected_loss import partial_loss
from circuitax.superposition.loss.padding import unpacked
from circuitax.superposition.optimum.bfgs import BFGSState, begin, minimise

# Evaluations after which the unfinished are packed into fewer batches: half of the members need 60,
# one in a hundred needs 200.
ROUNDS = (20, 40, 60, 80, 120, 160, 240, 400)

_begin = jax.jit(jax.vmap(begin))


class Effort(NamedTuple):
    """What a descent spends on every start.

    Attributes:
        n_terms: Cosine terms of the loss, a multiple of ``block``.
        block: Cosine terms evaluated together; efforts that differ in ``n_terms`` share a program.
            0 for the closed form alone, which is exact up to two features.
        tolerances: Of gradient and value, relative to the loss of a model that does nothing.
        rounds: Evaluations after which the unfinished are gathered, the last of them the most.
    """

    n_terms: int
    block: int
    tolerances: tuple[float, float]
    rounds: tuple[int, ...] = ROUNDS


class Settled(NamedTuple):
    """Final states of members, on the host.

    Attributes:
        gradient: Largest entry of the loss's gradient.
    """

    x: Float[np.ndarray, "member d"]
    loss: Float[np.ndarray, " member"]
    gradient: Float[np.ndarray, " member"]


def descend(
    x: Float[np.ndarray, "member d"],
    density: Float[np.ndarray, "member n_features"],
    importance: Float[np.ndarray, "member n_features"],
    *,
    rows: int,
    batch: int,
    effort: Effort,
) -> Settled:
    """Minimise the sum loss from every start. Arguments and results are on the host."""
    at_rest = np.sum(density * importance, axis=1) / 3
    scale = np.where(at_rest > 0, at_rest, 1).astype(x.dtype)
    members = np.arange(len(x))
    begun = [_begin(x[at]) for at in batches(members, batch)]
    states = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(x)], *begun)
    for limit in effort.rounds:
        groups = batches(members[~states.done], batch)
        # Dispatched before any result is used, batches run side by side on the host's cores.
        moved = [
            _advance(
                jax.tree.map(lambda leaf, at=at: leaf[at], states),
                *(array[at] for array in (density, importance, scale)),
                limit,
                effort.tolerances,
                effort.n_terms,
                rows=rows,
                block=effort.block,
            )
            for at in groups
        ]
        for at, new in zip(groups, moved, strict=True):
            for leaf, value in zip(states, new, strict=True):
                leaf[at] = value  # entries repeated as padding are equal
    gradient = np.max(np.abs(states.gradient), axis=1)
    return Settled(states.x, states.value * scale, gradient * scale)


@partial(jax.jit, static_argnames=("rows", "block"), compiler_options=OPTIONS)
def _advance(
    states: BFGSState,
    density: Float[Array, "member n_features"],
    importance: Float[Array, "member n_features"],
    scale: Float[Array, " member"],
    max_evaluations: int | Int[Array, ""],
    tolerances: tuple[float | Float[Array, ""], float | Float[Array, ""]],
    n_terms: int | Int[Array, ""],
    *,
    rows: int,
    block: int,
) -> BFGSState:
    """Advance a batch of states until all have converged or used up their evaluations."""

    def one(state: BFGSState, p: Array, weight: Array, unit: Array) -> BFGSState:
        def share(y: Array, first: int | Array) -> Array:
            weights = unpacked(y, rows)
            loss = partial_loss(weights, p, weight, n_terms=n_terms, block=block, first=first)
            return loss / unit

        def value_and_grad(y: Array) -> tuple[Array, Array]:
            if block == 0:
                return jax.value_and_grad(share)(y, 0)

            def add(i: Array, total: tuple[Array, Array]) -> tuple[Array, Array]:
                return jax.tree.map(jnp.add, total, jax.value_and_grad(share)(y, i * block))

            nothing = (jnp.zeros((), y.dtype), jnp.zeros_like(y))
            return jax.lax.fori_loop(0, n_terms // block, add, nothing)

        return minimise(
            value_and_grad,
            state,
            max_evaluations=max_evaluations,
            gradient_tolerance=tolerances[0],
            value_tolerance=tolerances[1],
        )

    return jax.vmap(one)(states, density, importance, scale)
