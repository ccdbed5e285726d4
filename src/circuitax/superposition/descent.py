"""Dense BFGS for many small problems at once, and toy models moved downhill by it.

An ordinary line search is a loop inside a loop, and under ``vmap`` every member waits for the
slowest at each step. Here a rejected step merely shortens the next trial, so that each iteration
evaluates every member exactly once and no member waits.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.superposition.expected_loss import OPTIONS, batches, partial_loss, unpacked

SUFFICIENT_DECREASE = 1e-4
FLAT_STEPS = 3  # accepted steps without progress before a member stops


class BFGSState(NamedTuple):
    """A minimiser's position, its inverse Hessian, and its next step."""

    x: Float[Array, " d"]
    value: Float[Array, ""]
    gradient: Float[Array, " d"]
    inverse: Float[Array, "d d"]
    direction: Float[Array, " d"]
    step: Float[Array, ""]
    n_updates: Int[Array, ""]
    n_flat: Int[Array, ""]
    n_evaluations: Int[Array, ""]
    done: Bool[Array, ""]


def begin(start: Float[Array, " d"]) -> BFGSState:
    """The state before the first evaluation."""
    zero = jnp.zeros_like(start)
    count = jnp.zeros((), jnp.int32)
    return BFGSState(
        x=start,
        value=jnp.full((), jnp.inf, start.dtype),
        gradient=zero,
        inverse=jnp.eye(start.shape[0], dtype=start.dtype),
        direction=zero,
        step=jnp.ones((), start.dtype),
        n_updates=count,
        n_flat=count,
        n_evaluations=count,
        done=jnp.zeros((), bool),
    )


def minimise(
    value_and_grad: Callable[[Float[Array, " d"]], tuple[Float[Array, ""], Float[Array, " d"]]],
    state: BFGSState,
    *,
    max_evaluations: int | Int[Array, ""],
    gradient_tolerance: float | Float[Array, ""] = 1e-9,
    value_tolerance: float | Float[Array, ""] = 1e-12,
) -> BFGSState:
    """Move a state downhill until it converges or has used up its evaluations."""

    def running(state: BFGSState) -> Bool[Array, ""]:
        return ~state.done & (state.n_evaluations < max_evaluations)

    def advance(state: BFGSState) -> BFGSState:
        trial = state.x + state.step * state.direction
        value, gradient = value_and_grad(trial)
        slope = state.gradient @ state.direction
        accepted = value <= state.value + SUFFICIENT_DECREASE * state.step * slope
        after = jax.tree.map(
            lambda a, b: jnp.where(accepted, a, b),
            _accept(state, trial, value, gradient),
            _shorten(state, value, slope),
        )
        flat = accepted & (state.value - value <= value_tolerance * jnp.abs(value))
        n_flat = jnp.where(accepted, jnp.where(flat, state.n_flat + 1, 0), state.n_flat)
        settled = accepted & (jnp.max(jnp.abs(gradient)) <= gradient_tolerance)
        return after._replace(
            n_flat=n_flat,
            n_evaluations=state.n_evaluations + 1,
            done=after.done | settled | (n_flat >= FLAT_STEPS),
        )

    return jax.lax.while_loop(running, advance, state)


def _accept(
    state: BFGSState, x: Float[Array, " d"], value: Float[Array, ""], gradient: Float[Array, " d"]
) -> BFGSState:
    """Move, and update the inverse Hessian where the step saw positive curvature."""
    s, y = x - state.x, gradient - state.gradient
    sy, yy = s @ y, y @ y
    convex = sy > 1e-8 * jnp.sqrt((s @ s) * yy)
    safe = jnp.where(convex, sy, 1)
    # The first update sets the scale (Nocedal & Wright, eq. 6.20).
    scale = jnp.where(state.n_updates == 0, safe / jnp.where(convex, yy, 1), 1)
    before = scale * state.inverse
    moved = before @ y
    updated = (
        before
        + (1 + y @ moved / safe) * jnp.outer(s, s) / safe
        - (jnp.outer(s, moved) + jnp.outer(moved, s)) / safe
    )
    # Along negative curvature the model is wrong about scale only: take longer steps.
    inverse = jnp.where(convex, updated, 2 * state.inverse)
    direction = -inverse @ gradient
    descends = (direction @ gradient < 0) & (state.n_evaluations > 0)
    size = jnp.sqrt(gradient @ gradient)
    # A first step has no scale yet: a tenth of a unit, or less.
    cautious = jnp.minimum(1.0, 0.1 / jnp.maximum(size, jnp.finfo(x.dtype).tiny))
    return state._replace(
        x=x,
        value=value,
        gradient=gradient,
        inverse=jnp.where(descends, inverse, jnp.eye(x.shape[0], dtype=x.dtype)),
        direction=jnp.where(descends, direction, -gradient),
        step=jnp.where(descends, jnp.ones_like(state.step), cautious),
        n_updates=jnp.where(descends, state.n_updates + convex, 0),
    )


def _shorten(state: BFGSState, value: Float[Array, ""], slope: Float[Array, ""]) -> BFGSState:
    """Try a shorter step: the minimum of a fitted parabola, within [0.1, 0.5]."""
    excess = value - state.value - slope * state.step
    fraction = -0.5 * slope * state.step / jnp.where(excess > 0, excess, 1)
    fraction = jnp.where((excess > 0) & jnp.isfinite(excess), jnp.clip(fraction, 0.1, 0.5), 0.1)
    step = state.step * fraction
    # No descent within rounding: restart from the gradient once, then stop.
    size = jnp.sqrt(state.direction @ state.direction)
    exhausted = step * size <= jnp.finfo(step.dtype).eps * (1 + jnp.sqrt(state.x @ state.x))
    fresh = state.n_updates == 0
    return state._replace(
        inverse=jnp.where(exhausted, jnp.eye(state.x.shape[0], dtype=state.x.dtype), state.inverse),
        direction=jnp.where(exhausted, -state.gradient, state.direction),
        step=jnp.where(exhausted, jnp.ones_like(step), step),
        n_updates=jnp.where(exhausted, 0, state.n_updates),
        done=state.done | (exhausted & fresh),
    )


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
