"""A training problem, its step, and many steps of one member in a compiled scan."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.checks import check_range
from circuitax.training.optim import OptimSpec, direction, rate_factor


@runtime_checkable
class Problem(Protocol):
    """A model with its data and its loss, for one member; hashable, since jit keys on it."""

    def init(self, key: Key[Array, ""], hyper: PyTree) -> PyTree:
        """Initial parameters."""
        ...

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PyTree:
        """The data of one step, a pure function of key and step: its state needs no checkpoint."""
        ...

    def loss(self, params: PyTree, batch: PyTree, hyper: PyTree) -> "Loss":
        """The loss to minimise; with it, if wanted, a dict of arrays that are recorded."""
        ...


Loss = Float[Array, ""] | tuple[Float[Array, ""], dict[str, Array]]
# Metrics that every training records.
RECORDED = ("loss", "grad_norm", "alive")


def loss_and_metrics(
    problem: Problem, params: PyTree, batch: PyTree, hyper: PyTree
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """The loss of a problem, and its own metrics, if it has any."""
    found = problem.loss(params, batch, hyper)
    loss, metrics = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
    if jnp.shape(loss) != () or not isinstance(metrics, dict):
        raise ValueError(
            f"loss of {type(problem).__name__} must return one number, or one number and a dict"
        )
    if taken := sorted(set(metrics) & set(RECORDED)):
        raise ValueError(f"loss returns a metric {taken[0]!r}, a name that every training records")
    return loss, metrics


@runtime_checkable
class Decaying(Problem, Protocol):
    """A problem with its own weight decay, beside that of the optimizer, which is equal for all."""

    def decay(self, params: PyTree, hyper: PyTree) -> PyTree:
        """Term added to the optimizer's direction: an update is ``-rate (d + decay)``."""
        ...


class Member(NamedTuple):
    """One training run: two keys and its dynamic numbers; an ensemble has a leading axis."""

    init_key: Key[Array, "*member"]
    data_key: Key[Array, "*member"]
    learning_rate: Float[Array, "*member"]
    hyper: PyTree


class TrainState(NamedTuple):
    """Everything that changes in a run; a diverged member keeps its last finite state.

    Attributes:
        step: Updates done; for a diverged member, those before it diverged.
        alive: False once a loss or a gradient was not finite.
    """

    params: PyTree
    opt_state: PyTree
    step: Int[Array, "*member"]
    alive: jax.Array


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


Metrics = dict[str, Array]


def scan_steps(
    one_step: Callable[[TrainState], tuple[TrainState, Metrics]], state: TrainState, n_steps: int
) -> tuple[TrainState, Metrics]:
    """Repeat a step ``n_steps`` times; metrics are means over steps, ``alive`` is the last."""
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


@dataclass(frozen=True)
class SideBySide:
    """A `Problem` of several others that draw the same batches: the sum of their losses.

    ``L(θ_1, ..., θ_k) = Σ_i L_i(θ_i)``. No parameter is in two losses, so that an optimizer that
    treats every entry by itself, such as Adam, trains each as if it were alone, on one draw of each
    batch. Parameters and ``hyper`` are tuples with an entry for each problem; the members' keys
    serve all. One that diverges stops the others of its member, and the norm of the gradient is
    that of all.

    Attributes:
        problems: At least one; the first one draws the batches, as the others would.
    """

    problems: tuple[Problem, ...]

    def __post_init__(self) -> None:
        if not self.problems:
            raise ValueError("problems=() must have at least one")

    def init(self, key: Key[Array, ""], hyper: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        """Initial parameters of each, from one key."""
        return tuple(p.init(key, own) for p, own in zip(self.problems, hyper, strict=True))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PyTree:
        """The data of one step."""
        return self.problems[0].batch(key, step)

    def loss(
        self, params: tuple[PyTree, ...], batch: PyTree, hyper: tuple[PyTree, ...]
    ) -> Float[Array, ""]:
        """The sum of their losses; metrics of their own are not recorded."""
        parts = zip(self.problems, params, hyper, strict=True)
        losses = [loss_and_metrics(p, theta, batch, own)[0] for p, theta, own in parts]
        return jnp.sum(jnp.stack(losses))


@partial(jax.jit, static_argnames=("problem", "n_batches"))
def fresh_losses(
    problem: Problem, params: PyTree, hyper: PyTree, key: Key[Array, ""], n_batches: int
) -> Float[Array, "n_batches member"]:
    """The loss of every member on ``n_batches`` common held-out batches."""
    check_range("n_batches", n_batches, "[1, inf)")

    def one_batch(step: Array) -> Float[Array, " member"]:
        batch = problem.batch(key, step)
        return jax.lax.map(
            lambda member: loss_and_metrics(problem, member[0], batch, member[1])[0],
            (params, hyper),
        )

    return jax.lax.map(one_batch, jnp.arange(n_batches))
