"""A training problem: three pure functions, and the hyperparameters of a member."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.keys import derive


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


def new_member(
    key: Key[Array, ""], learning_rate: float | Float[Array, ""], hyper: PyTree
) -> Member:
    """A run whose initialisation and data both derive from one key."""
    rate = jnp.asarray(learning_rate, float)
    return Member(derive(key, "init"), derive(key, "data"), rate, hyper)
