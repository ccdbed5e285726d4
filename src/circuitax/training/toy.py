"""The toy models as a training problem: reconstruct the sparse input features."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.checks import check_range, choice, choose_fields
from circuitax.kernel.keys import at_index, uniforms
from circuitax.kernel.mlp import Activation, activate
from circuitax.kernel.toy import (
    dense_forward,
    feature_columns,
    sample_anticorrelated,
    sample_correlated,
)
from circuitax.kernel.weights import DenseWeights, TiedWeights
from circuitax.models.toy import ToyKind, ToySpec, init_weights
from circuitax.superposition.expected_loss import Convention
from circuitax.training.ensemble import split_samples


def weighted_squared_error(
    target: Float[Array, "*shape"],
    output: Float[Array, "*shape"],
    importance: Float[Array, " n_features"],
    convention: Convention | str,
    *,
    feature_axis: int = -1,
) -> Float[Array, ""]:
    """Importance-weighted squared error, the mean over samples.

    ``L = mean_samples sum_i I_i (x_i - x_hat_i)^2``, divided by n_features under ``mean``.

    Source: toy-models paper, "Demonstrating Superposition"; its notebook for ``mean``.
    Differs: one formula of the paper puts the importance inside the square.
    """
    n_features = target.shape[feature_axis]
    if importance.shape[0] != n_features:
        raise ValueError(
            f"importance has {importance.shape[0]} entries, must have one per feature, {n_features}"
        )
    check_range("importance", importance, "[0, inf)")
    convention = choice("convention", Convention, convention)
    features_last = jnp.moveaxis(jnp.square(target - output), feature_axis, -1)
    error = jnp.mean(features_last, axis=tuple(range(target.ndim - 1)))
    total = jnp.sum(importance * error)
    return total / n_features if convention is Convention.mean else total


class ToyHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        density: p = 1 - S in [0, 1], one for each feature, or for each set of features.
        importance: I_i, not negative.
    """

    density: Float[Array, "*member n_density"]
    importance: Float[Array, "*member n_features"]


class Features(Enum):
    """Joint distribution of features; see `kernel.features`."""

    independent = "independent"
    correlated = "correlated"
    anticorrelated = "anticorrelated"


class Target(Enum):
    """Target of the model's outputs."""

    identity = "identity"
    absolute = "absolute"
    """``|x|`` of features in [-1, 1]: computation in superposition."""


@dataclass(frozen=True)
class ToyProblem:
    """A toy model, its sparse features, and its importance-weighted squared error.

    Samples are columns here, ``x [n_features, batch]``, as in the paper. The last axis is then long
    whatever the model, so that every pass is a few vector instructions: a step at ``n_features=5``
    is about twice as fast as with samples in rows, and the arithmetic is the same.

    Attributes:
        model: The model.
        batch_size: Fresh samples in each step, at least 1.
        convention: Sum or mean over features.
        target: What the outputs should be.
        features: How features occur together.
        set_size: Features in a set; 1 for independent ones, which have no sets.

    Source: toy-models paper, "Demonstrating Superposition"; its notebook for batch and convention.
    """

    model: ToySpec
    batch_size: int = 1024
    convention: Convention = Convention.sum
    target: Target = Target.identity
    features: Features = Features.independent
    set_size: int = 1

    def __post_init__(self) -> None:
        choose_fields(self)
        n, size = self.model.n_features, self.set_size
        check_range("batch_size", self.batch_size, "[1, inf)")
        if size < 1 or n % size:
            raise ValueError(f"set_size={size} must divide n_features={n}")
        if self.features is Features.independent and size != 1:
            raise ValueError(f"set_size={size} must be 1 for independent features")
        if self.features is not Features.independent and self.target is Target.absolute:
            raise ValueError("target=absolute must have features=independent, which have signs")

    def init(self, key: Key[Array, ""], hyper: ToyHyper) -> TiedWeights | DenseWeights:
        """Gaussian weights, zero biases."""
        return init_weights(self.model, key)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PyTree:
        """One uniform for each feature and sample; for features in sets, the key to draw from."""
        key = at_index(key, step)
        if self.features is not Features.independent:
            return key
        return uniforms(key, (self.model.n_features, self.batch_size))

    def loss(
        self, params: TiedWeights | DenseWeights, batch: PyTree, hyper: ToyHyper
    ) -> Float[Array, ""]:
        """Importance-weighted squared error of one batch."""
        x = split_samples(self._columns(batch, hyper.density), axis=1)
        target = jnp.abs(x) if self.target is Target.absolute else x
        output = self._forward(params, x)
        return weighted_squared_error(
            target, output, hyper.importance, self.convention, feature_axis=0
        )

    def _columns(self, batch: PyTree, density: Float[Array, " n"]) -> Float[Array, "n_features _"]:
        if self.features is Features.independent:
            return feature_columns(batch, density, signed=self.target is Target.absolute)
        correlated = self.features is Features.correlated
        sample = sample_correlated if correlated else sample_anticorrelated
        return sample(batch, density, self.batch_size, set_size=self.set_size).T

    def _forward(
        self, params: TiedWeights | DenseWeights, x: Float[Array, "n_features batch"]
    ) -> Float[Array, "n_features batch"]:
        if isinstance(params, TiedWeights):
            hidden_relu = self.model.kind is ToyKind.privileged
            return tied_columns(params, x, self.model.output, hidden_relu=hidden_relu)
        relu = self.model.output is Activation.relu
        return dense_forward(params, x.T, output_relu=relu)[0].T


def tied_columns(
    weights: TiedWeights,
    x: Float[Array, "n_features batch"],
    output: Activation,
    *,
    hidden_relu: bool = False,
) -> Float[Array, "n_features batch"]:
    """``out(W^T W x + b)`` on columns: `kernel.toy.tied_forward` of the transpose, transposed."""
    hidden = weights.W @ x
    if hidden_relu:
        hidden = jax.nn.relu(hidden)
    return activate(weights.W.T @ hidden + weights.b[:, None], output)
