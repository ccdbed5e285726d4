"""Many steps of one member in a compiled scan; `ensemble` maps these functions over members."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from circuitax.kernel.checks import check_range
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Problem, TrainState
from circuitax.training.step import init, step

Metrics = dict[str, Array]


def scan_steps(
    one_step: Callable[[TrainState], tuple[TrainState, Metrics]], state: TrainState, n_steps: int
) -> tuple[TrainState, Metrics]:
    """Repeat a step ``n_steps`` times; metrics are means over the steps, ``alive`` is the last one.
    """
    check_range("n_steps", n_steps, "[1, inf)")
    state, metrics = jax.lax.scan(lambda s, _: one_step(s), state, length=n_steps)
    means = {name: jnp.mean(values, axis=0) for name, values in metrics.items()}
    return state, means | {"alive": state.alive}


def chunk(
    problem: Problem, optim: OptimSpec, n_steps: int, state: TrainState, member: Member
) -> tuple[TrainState, Metrics]:
    """``n_steps`` steps of one member, each on the batch of its own key and step; pure."""

    def one_step(state: TrainState) -> tuple[TrainState, Metrics]:
        batch = problem.batch(member.data_key, state.step)
        return step(problem, optim, state, member, batch)

    return scan_steps(one_step, state, n_steps)


def train(
    problem: Problem, optim: OptimSpec, n_steps: int, member: Member
) -> tuple[TrainState, Metrics]:
    """A whole run as one pure function of a member: its keys and its dynamic numbers."""
    return chunk(problem, optim, n_steps, init(problem, optim, member), member)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnames="state")
def advance(
    problem: Problem, optim: OptimSpec, n_steps: int, state: TrainState, member: Member
) -> tuple[TrainState, Metrics]:
    """`chunk`, compiled; ``state`` is donated, do not read it again."""
    return chunk(problem, optim, n_steps, state, member)
