"""One pure training step; a diverged member is frozen."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from circuitax.training.optim import OptimSpec, direction, rate_factor
from circuitax.training.problem import Decaying, Member, Problem, TrainState, loss_and_metrics


def init(problem: Problem, optim: OptimSpec, member: Member) -> TrainState:
    """The state of one member before its first step."""
    params = problem.init(member.init_key, member.hyper)
    opt_state = direction(optim).init(params)
    return TrainState(params, opt_state, jnp.zeros((), jnp.int32), jnp.ones((), bool))


def step(
    problem: Problem, optim: OptimSpec, state: TrainState, member: Member, batch: PyTree
) -> tuple[TrainState, dict[str, Array]]:
    """One update of one member: ``params - rate d``, d the optimizer's direction.

    Returns:
        The next state, and ``loss``, ``grad_norm`` and the problem's own metrics at the parameters
        before the update, NaN once the member has diverged.
    """
    objective = partial(loss_and_metrics, problem)
    (loss, own), grads = jax.value_and_grad(objective, has_aux=True)(
        state.params, batch, member.hyper
    )
    updates, opt_state = direction(optim).update(grads, state.opt_state, state.params)
    if isinstance(problem, Decaying):
        pull = problem.decay(state.params, member.hyper)
        updates = jax.tree.map(lambda d, more: d + more, updates, pull)
    rate = member.learning_rate * rate_factor(optim, state.step)
    params = jax.tree.map(lambda p, d: p - (rate * d).astype(p.dtype), state.params, updates)
    grad_norm = jnp.sqrt(sum(jnp.vdot(g, g).real for g in jax.tree.leaves(grads)))
    alive = state.alive & jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    moved = TrainState(params, opt_state, state.step + 1, alive)
    kept = state._replace(alive=alive)
    state = jax.tree.map(lambda new, old: jnp.where(alive, new, old), moved, kept)
    metrics = {"loss": loss, "grad_norm": grad_norm, **own}
    return state, {name: jnp.where(alive, value, jnp.nan) for name, value in metrics.items()}
