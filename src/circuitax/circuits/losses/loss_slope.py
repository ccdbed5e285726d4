"""Slope of the loss along a text: its derivative by the logarithm of the token's index."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def loss_slope(
    losses: Float[Array, "*batch n_losses"], span: float = 2.0
) -> Float[Array, "*batch n_losses"]:
    """``d loss / d ln(index)`` at every index, nats; negative where longer contexts help.

    Source: induction-heads paper, "derivative of loss with respect to log(token index)".
    Differs: the paper states no smoothing.
    """
    n = losses.shape[-1]
    if n < 2:
        raise ValueError(f"losses has {n} positions, a slope needs at least 2")
    if not span > 1:
        raise ValueError(f"span={span} must be above 1")
    return losses @ jnp.asarray(_lines(n, span), losses.dtype).T


def _lines(n: int, span: float) -> np.ndarray:
    """Row i holds the weights of the losses in the slope at index i + 1."""
    index = np.arange(n)
    x = np.log(index + 1.0)
    near = np.abs(x[:, None] - x[None, :]) <= math.log(span) / 2
    near |= np.abs(index[:, None] - index[None, :]) <= 1
    middle = (near * x[None, :]).sum(1) / near.sum(1)
    offset = near * (x[None, :] - middle[:, None])
    lines: np.ndarray = offset / (offset**2).sum(1, keepdims=True)
    return lines
