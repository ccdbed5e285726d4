"""The slope of the loss along a text: exact on logarithms, against NumPy, linear."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import losses as loss_slope


def test_exact_where_the_loss_is_a_logarithm(x64: None) -> None:
    index = np.arange(1, 41)
    losses = jnp.asarray(3.0 - 0.7 * np.log(index))
    np.testing.assert_allclose(loss_slope(losses), -0.7, atol=1e-12)
    np.testing.assert_allclose(loss_slope(jnp.full(40, 2.0)), 0.0, atol=1e-12)


def test_is_the_line_through_the_neighbourhood(x64: None) -> None:
    losses = np.random.default_rng(0).normal(size=(3, 30))
    found = loss_slope(jnp.asarray(losses), span=2.0)
    # index 10: those from 10 / sqrt 2 = 7.07 to 14.14
    for row, slope in zip(losses, found, strict=True):
        line = np.polyfit(np.log(np.arange(8, 15)), row[7:14], 1)
        np.testing.assert_allclose(slope[9], line[0], rtol=1e-10)
    # the first index has only its neighbour
    np.testing.assert_allclose(found[:, 0], (losses[:, 1] - losses[:, 0]) / np.log(2), rtol=1e-10)


def test_grad_and_jit() -> None:
    losses = jnp.arange(8.0)
    gradient = jax.jit(jax.grad(lambda x: loss_slope(x)[0]))(losses)
    np.testing.assert_allclose(gradient[:3], [-1 / np.log(2), 1 / np.log(2), 0], rtol=1e-6)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="losses has 1 positions"):
        loss_slope(jnp.zeros(1))
    with pytest.raises(ValueError, match=r"span=1.0 must be above 1"):
        loss_slope(jnp.zeros(4), span=1.0)
