"""Absolute values as a training problem, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.training.toy import ToyHyper
from experiments.superposition.toy_abs.problem import AbsoluteToy


def test_the_loss_is_that_of_absolute_values() -> None:
    with jax.enable_x64(True):
        problem = AbsoluteToy(4, 3, batch_size=9, init_scale=0.5)
        hyper = ToyHyper(jnp.array([0.5, 0.7, 1.0, 0.2]), 0.8 ** jnp.arange(4.0))
        params = problem.init(jax.random.key(0), hyper)
        params = params._replace(b_out=jnp.array([0.1, -0.2, 0.3, 0.0]))
        batch = problem.batch(jax.random.key(1), jnp.asarray(2))
        found = jax.jit(problem.loss)(params, batch, hyper)
        u, p = np.asarray(batch), np.asarray(hyper.density)[:, None]
        x = np.where(u < p, 2 * u / p - 1, 0).T
        hidden = np.maximum(0, x @ np.asarray(params.W_in))
        output = np.maximum(0, hidden @ np.asarray(params.W_out) + np.asarray(params.b_out))
    wanted = ((output - np.abs(x)) ** 2 @ 0.8 ** np.arange(4)).mean()
    assert float(found) == pytest.approx(wanted, rel=1e-12)
    assert (x < 0).any() and (x > 0).any()


def test_two_neurons_a_feature_compute_it_exactly() -> None:
    with jax.enable_x64(True):
        problem = AbsoluteToy(2, 4, batch_size=16)
        hyper = ToyHyper(jnp.full(2, 0.8), jnp.ones(2))
        params = problem.init(jax.random.key(0), hyper)
        W = jnp.concatenate([jnp.eye(2), -jnp.eye(2)], axis=1)
        exact = params._replace(W_in=W, W_out=jnp.abs(W).T)
        batch = problem.batch(jax.random.key(1), jnp.asarray(0))
        assert float(problem.loss(exact, batch, hyper)) < 1e-30
        assert float(problem.loss(params, batch, hyper)) > 1e-3


def test_initial_weights_have_kaimings_variance_times_the_scale() -> None:
    problem = AbsoluteToy(60, 50, init_scale=0.3)
    hyper = ToyHyper(jnp.full(60, 0.5), jnp.ones(60))
    params = problem.init(jax.random.key(3), hyper)
    assert float(params.W_in.std()) == pytest.approx(0.3 * (2 / 60) ** 0.5, rel=0.05)
    assert float(params.W_out.std()) == pytest.approx(0.3 * (2 / 50) ** 0.5, rel=0.05)


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="n_hidden=0 must be at least 1"):
        AbsoluteToy(2, 0)
    with pytest.raises(ValueError, match=r"init_scale=0.0 must be positive"):
        AbsoluteToy(2, 2, init_scale=0.0)
