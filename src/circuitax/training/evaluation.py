"""Losses of trained members on common fresh batches."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from circuitax.kernel.checks import check_range
from circuitax.training.problem import Problem, loss_and_metrics


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
