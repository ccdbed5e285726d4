"""Decay of either sign, and problems that have their own: against NumPy."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from circuitax.training.optim import Optimizer, OptimSpec
from circuitax.training.problem import init, new_member, step
from experiments.directions.toy_scaling.decay import signed_decay
from experiments.directions.toy_scaling.problem import ScalingHyper, ScalingToy


def test_positive_decay_shrinks_and_negative_decay_draws_to_unit_norm() -> None:
    with jax.enable_x64(True):
        W = jnp.array([[3.0, 0.3, 0.0, 0.6], [4.0, 0.4, 0.0, -0.8]])
        shrinking = jax.jit(signed_decay)(W, jnp.asarray(0.7))
        growing = jax.jit(signed_decay)(W, jnp.asarray(-0.5))
        slope = jax.grad(lambda W: jnp.sum(signed_decay(W, -1.0) ** 2))(W)
    np.testing.assert_allclose(shrinking, 0.7 * np.asarray(W), rtol=1e-12)
    moved = np.linalg.norm(np.asarray(W) - 0.1 * np.asarray(growing), axis=0)
    # Norms 5, 1/2, 0 and 1: long ones shrink by 0.1 * 0.5 * (5 - 1), short ones grow likewise.
    np.testing.assert_allclose(moved, [4.8, 0.525, 0, 1], atol=1e-12)
    assert np.isfinite(slope).all()


class Strength(NamedTuple):
    strength: Array


@dataclass(frozen=True)
class Pulled:
    """A fixed slope, and a decay of its own."""

    def init(self, key: Array, hyper: Strength) -> Array:
        return jnp.array([2.0, -1.0])

    def batch(self, key: Array, step: Array) -> tuple[()]:
        return ()

    def loss(self, params: Array, batch: Any, hyper: Strength) -> Array:
        return params @ jnp.array([1.0, 3.0])

    def decay(self, params: Array, hyper: Strength) -> Array:
        return hyper.strength * params


def test_a_step_adds_the_decay_of_the_problem_to_the_direction() -> None:
    optim = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0)
    member = new_member(jax.random.key(0), 0.1, Strength(jnp.asarray(0.5)))
    problem = Pulled()
    state, _ = jax.jit(partial(step, problem, optim))(init(problem, optim, member), member, ())
    np.testing.assert_allclose(state.params, [2 - 0.1 * (1 + 1), -1 - 0.1 * (3 - 0.5)], rtol=1e-6)


def test_the_scaling_model_against_numpy() -> None:
    with jax.enable_x64(True):
        problem = ScalingToy(6, 2, batch_size=50)
        p = jnp.array([0.9, 0.5, 0.3, 0.3, 0.2, 0.1])
        hyper = ScalingHyper(p, jnp.asarray(-0.3))
        params = problem.init(jax.random.key(0), hyper)
        batch = problem.batch(jax.random.key(1), jnp.asarray(3))
        loss = jax.jit(problem.loss)(params, batch, hyper)
        pull = problem.decay(params, hyper)
        wide = ScalingToy(500, 40).init(jax.random.key(0), hyper)
    W, b, u = (np.asarray(a) for a in (params.W, params.b, batch))
    x = np.where(u < np.asarray(p)[:, None], 2 * u / np.asarray(p)[:, None], 0)
    output = np.maximum(W.T @ (W @ x) + b[:, None], 0)
    assert float(loss) == pytest.approx(((output - x) ** 2).sum(axis=0).mean(), rel=1e-12)
    assert x.max() > 1.5
    norm = np.linalg.norm(W, axis=0)
    np.testing.assert_allclose(pull.W, -0.3 * W * (1 / norm - 1), rtol=1e-12)
    assert not np.asarray(pull.b).any()
    # Norms of 1 at the start: W ~ N(0, 1/m).
    assert np.mean(np.asarray(wide.W) ** 2) * 40 == pytest.approx(1, abs=0.05)
    assert np.std(np.asarray(wide.b)) == pytest.approx(1, abs=0.15)


def test_a_scaling_model_without_hidden_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="n_hidden=0 must be at least 1"):
        ScalingToy(3, 0)
