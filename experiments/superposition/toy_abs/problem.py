"""Computation in superposition as a training problem: the absolute value of sparse features."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.kernel.weights import MLPWeights
from circuitax.superposition.expected_loss import Convention
from circuitax.training.toy import ToyHyper, weighted_squared_error


@dataclass(frozen=True)
class AbsoluteToy:
    """``y = ReLU(ReLU(x W_in) W_out + b_out)``, trained to give ``|x|``; sum loss.

    There is no hidden bias: with one, a neuron could be shifted into its linear part. Features are
    uniform on [-1, 1] with probability p, and 0 otherwise. Samples are columns, as in `toy`.

    Attributes:
        n_features: Inputs and outputs, at least 1.
        n_hidden: Neurons, at least 1.
        batch_size: Fresh samples in each step, at least 1.
        init_scale: Standard deviation of the initial weights over Kaiming's, positive. At 1,
            networks of many unimportant features end in poor minima, where neurons mix features
            that they happened to mix at the start.

    Raises:
        ValueError: If a size is less than 1, or ``init_scale`` is not positive.

    Source: toy-models paper, "Computation in superposition"; ARENA for the initialisation
        (Kaiming, uniform).
    """

    n_features: int
    n_hidden: int
    batch_size: int = 1024
    init_scale: float = 1.0

    def __post_init__(self) -> None:
        for field in ("n_features", "n_hidden", "batch_size"):
            check_range(field, getattr(self, field), "[1, inf)")
        if not self.init_scale > 0:
            raise ValueError(f"init_scale={self.init_scale} must be positive")

    def init(self, key: Key[Array, ""], hyper: ToyHyper) -> MLPWeights:
        """Uniform weights of variance ``2 init_scale^2 / d_in``, zero output biases."""
        n, m, scale = self.n_features, self.n_hidden, self.init_scale
        return MLPWeights(
            W_in=scale * _kaiming(derive(key, "W_in"), n, m),
            W_out=scale * _kaiming(derive(key, "W_out"), m, n),
            b_out=jnp.zeros(n),
        )

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Float[Array, "n_features batch"]:
        """One uniform for each feature and sample."""
        return uniforms(at_index(key, step), (self.n_features, self.batch_size))

    def loss(
        self, params: MLPWeights, batch: Float[Array, "n_features batch"], hyper: ToyHyper
    ) -> Float[Array, ""]:
        """Importance-weighted squared error of one batch."""
        x = feature_columns(batch, hyper.density, signed=True)
        return weighted_squared_error(
            jnp.abs(x),
            absolute_columns(params, x),
            hyper.importance,
            Convention.sum,
            feature_axis=0,
        )


def absolute_columns(
    weights: MLPWeights, x: Float[Array, "n_features batch"]
) -> Float[Array, "n_features batch"]:
    """The outputs for samples in columns; there is no hidden bias."""
    hidden = jax.nn.relu(weights.W_in.T @ x)
    bias = 0 if weights.b_out is None else weights.b_out[:, None]
    return jax.nn.relu(weights.W_out.T @ hidden + bias)


def _kaiming(key: Key[Array, ""], d_in: int, d_out: int) -> Float[Array, "d_in d_out"]:
    limit = math.sqrt(6 / d_in)
    return jax.random.uniform(key, (d_in, d_out), float, -limit, limit)
