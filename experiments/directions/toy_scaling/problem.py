"""Toy models of any width on features of unequal frequency, as studied for scaling laws."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.activations import Activation
from circuitax.kernel.features import feature_columns
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.uniforms import uniforms
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.loss.convention import Convention
from circuitax.training.losses import weighted_squared_error
from circuitax.training.toy import tied_columns

HIGHEST_VALUE = 2.0
"""Values are uniform on [0, 2], so that their mean square is 4/3."""


def signed_decay(
    W: Float[Array, "n_hidden n_features"], strength: Float[Array, ""] | float
) -> Float[Array, "n_hidden n_features"]:
    """``γ W`` for γ of 0 or more, and ``γ W_i (1/|W_i| - 1)`` for each feature i below 0.

    An update subtracts it times the learning rate. Decay of positive strength shrinks every
    feature; of negative strength it grows short features and shrinks long ones, so that all are
    drawn to unit norm and none is ignored. A feature of norm 0 stays where it is.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), weight decay as the lever of superposition.
    """
    squares = jnp.sum(W**2, axis=0)
    dead = squares == 0
    inverse_norm = jnp.where(dead, 1, 1 / jnp.sqrt(jnp.where(dead, 1, squares)))
    factor = jnp.where(strength < 0, inverse_norm - 1, 1)
    return strength * W * factor[None, :]


class ScalingHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        density: p_i = P(feature i is on), in [0, 1].
        decay: γ of `decay.signed_decay`, for W alone.
    """

    density: Float[Array, "*member n_features"]
    decay: Float[Array, "*member"]


@dataclass(frozen=True)
class ScalingToy:
    """``relu(W^T W x + b)`` that gives back rare features with values in [0, 2]; sum loss.

    Attributes:
        n_features: n.
        n_hidden: The width m.
        batch_size: Fresh samples in each step.

    Source: Liu, Liu and Gore 2025 (arXiv 2505.10465), toy model.
    Differs: the published code multiplies the mean over features by 100.
    """

    n_features: int
    n_hidden: int
    batch_size: int = 2048

    def init(self, key: Key[Array, ""], hyper: ScalingHyper) -> TiedWeights:
        """``W ~ N(0, 1/m)``, ``b ~ N(0, 1)``."""
        shape = (self.n_hidden, self.n_features)
        W = jax.random.normal(derive(key, "W"), shape, float) / jnp.sqrt(self.n_hidden)
        return TiedWeights(W, jax.random.normal(derive(key, "b"), shape[1:], float))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Float[Array, "n_features batch"]:
        """One uniform for each feature and sample."""
        return uniforms(at_index(key, step), (self.n_features, self.batch_size))

    def loss(
        self, params: TiedWeights, batch: Float[Array, "n_features batch"], hyper: ScalingHyper
    ) -> Float[Array, ""]:
        """Squared error, summed over features."""
        x = HIGHEST_VALUE * feature_columns(batch, hyper.density, signed=False)
        output = tied_columns(params, x, Activation.relu)
        importance = jnp.ones(self.n_features)
        return weighted_squared_error(x, output, importance, Convention.sum, feature_axis=0)

    def decay(self, params: TiedWeights, hyper: ScalingHyper) -> TiedWeights:
        """The decay of W; biases have none."""
        return TiedWeights(signed_decay(params.W, hyper.decay), jnp.zeros_like(params.b))
