"""Problems that share nothing but their batches, trained as one, by one program."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.training.problem import Problem, loss_and_metrics


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
