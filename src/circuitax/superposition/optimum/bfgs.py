"""A dense BFGS minimiser for many small problems at once, with one gradient in each iteration.

An ordinary line search is a loop inside a loop, and under ``vmap`` every member waits for the
slowest at each step. Here a rejected step merely shortens the next trial, so that each iteration
evaluates every member exactly once and no member waits.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

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
