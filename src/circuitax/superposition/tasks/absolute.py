"""Absolute values in a hidden layer: gains, and neurons that serve features unequally.

All functions take one model's ``W_in [n_features, n_hidden]`` and ``W_out [n_hidden, n_features]``
of ``y = ReLU(ReLU(x W_in) W_out + b)``. They do not change when a neuron's input weights are
multiplied and its output weights divided by one positive number; use ``jax.vmap`` for several
models.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.kernel.checks import check_range


class Motif(NamedTuple):
    """Asymmetric superposition: neuron k reads i strongly and j weakly, and writes j strongly.

    Attributes:
        in_ratio: ``|W_in[i, k]| / |W_in[j, k]|``, 4 in the paper's example.
        out_ratio: ``W_out[k, j] / W_out[k, i]``, 4 in the paper's example.
        inhibition: What all other neurons take back of the neuron's effect of i on output j: 1 for
            all of it.
    """

    found: Bool[Array, "k i j"]
    in_ratio: Float[Array, "k i j"]
    out_ratio: Float[Array, "k i j"]
    inhibition: Float[Array, "k i j"]


def gains(
    W_in: Float[Array, "n_features n_hidden"], W_out: Float[Array, "n_hidden n_features"]
) -> Float[Array, "sign n_hidden n_features n_features"]:
    """Slope of every neuron's part of output j against ``|x_i|``, alone: ``ReLU(±W_in) W_out``."""
    positive = jnp.maximum(W_in, 0).T[:, :, None] * W_out[:, None, :]
    negative = jnp.maximum(-W_in, 0).T[:, :, None] * W_out[:, None, :]
    return jnp.stack([positive, negative])


def serving(
    W_in: Float[Array, "n_features n_hidden"], W_out: Float[Array, "n_hidden n_features"]
) -> Float[Array, "n_hidden n_features"]:
    """``|W_in[i, k]| W_out[k, i]``: neuron k's share of ``|x_i|`` on one side; 1 is all."""
    return jnp.abs(W_in).T * W_out


def asymmetric_motif(
    W_in: Float[Array, "n_features n_hidden"],
    W_out: Float[Array, "n_hidden n_features"],
    *,
    least_serving: float = 0.5,
    least_ratio: float = 1.5,
    least_inhibition: float = 0.5,
) -> Motif:
    """Asymmetric superposition: two features share a neuron, and other neurons undo the damage.

    Source: toy-models paper, "Computation in superposition" (asymmetric superposition motif: input
        weights 2 and -1/2, output weights 1/2 and 2, and an inhibiting neuron).
    Differs: the paper shows an example; the thresholds are ours.
    """
    check_range("least_serving", least_serving, "(0, 1]")
    check_range("least_ratio", least_ratio, "[1, inf)")
    check_range("least_inhibition", least_inhibition, "[0, 1]")
    size, does = jnp.abs(W_in).T, serving(W_in, W_out)
    opposite = (W_in.T[:, :, None] * W_in.T[:, None, :]) < 0
    in_ratio = _ratio(size[:, :, None], size[:, None, :])
    out_ratio = _ratio(W_out[:, None, :], W_out[:, :, None])
    slope = gains(W_in, W_out)
    # The side of feature i that neuron k sees.
    side = jnp.where(W_in.T[:, :, None] > 0, slope[0], slope[1])
    total = jnp.where(
        W_in.T[:, :, None] > 0, jnp.sum(slope[0], axis=0)[None], jnp.sum(slope[1], axis=0)[None]
    )
    inhibition = _ratio(side - total, side)
    found = (
        (jnp.minimum(does[:, :, None], does[:, None, :]) >= least_serving)
        & opposite
        & (in_ratio >= least_ratio)
        & (out_ratio >= least_ratio)
        & (inhibition >= least_inhibition)
    )
    return Motif(found, in_ratio, out_ratio, inhibition)


def _ratio(above: Array, below: Array) -> Array:
    """``above / below``, and 0 where below is 0; shapes may differ by axes of length 1."""
    above, below = jnp.broadcast_arrays(above, below)
    return jnp.where(below != 0, above / jnp.where(below != 0, below, 1), 0)
