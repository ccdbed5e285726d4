"""Toy models trained on a finite set of samples, all of it in every step."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.mlp import Activation
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToySpec, init_weights
from circuitax.training.toy import tied_columns


class TrainingSet(NamedTuple):
    """The samples of one member; sets of several sizes share one compilation.

    Attributes:
        x: Samples in columns.
        n_points: T: the first T columns are the training set, at least 1; the others are not seen.
        decay: Decoupled weight decay of W and b, 0 or more.
    """

    x: Float[Array, "*member n_features n_points"]
    n_points: Float[Array, "*member"]
    decay: Float[Array, "*member"]


@dataclass(frozen=True)
class MemorizingToy:
    """``relu(W^T W x + b)`` that gives back a fixed set of samples; sum loss, full batches.

    Attributes:
        model: A tied model.

    Source: Henighan et al. 2023, "Superposition, Memorization, and Double Descent".
    """

    model: ToySpec

    def init(self, key: Key[Array, ""], hyper: TrainingSet) -> TiedWeights:
        """Gaussian weights (Xavier), zero biases."""
        return TiedWeights(*init_weights(self.model, key))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> tuple[()]:
        """Nothing: the samples are in ``hyper``."""
        return ()

    def loss(self, params: TiedWeights, batch: tuple[()], hyper: TrainingSet) -> Float[Array, ""]:
        """Squared error of the training set, summed over features, the mean over its samples."""
        error = jnp.sum((hyper.x - tied_columns(params, hyper.x, Activation.relu)) ** 2, axis=0)
        seen = jnp.arange(error.shape[0]) < hyper.n_points
        return jnp.sum(jnp.where(seen, error, 0)) / hyper.n_points

    def decay(self, params: TiedWeights, hyper: TrainingSet) -> TiedWeights:
        """Decoupled decay of all parameters, as AdamW has it."""
        return jax.tree.map(lambda p: hyper.decay * p, params)
